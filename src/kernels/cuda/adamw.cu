// SPDX-License-Identifier: Apache-2.0
// Bound by memory. The step reads gradient, weight and two moments and writes the last three: 28
// bytes per value, 30 with a bfloat16 copy, 8 more with an average: at 4.2 TB/s 0.8 ms for 110
// million weights at 30 bytes. The sum of squares reads 4 bytes: 0.1 ms.
#include "kernels/cuda/adamw.h"

#include "kernels/cuda/partial_sums.cuh"
#include "kernels/cuda/reference_gpu.h"

namespace hydramix::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kSquareRun = 16 * kThreads;               // values per block at least
constexpr int kSquareParts = 4 * kReferenceProcessors;  // blocks at most, all at once
constexpr int kInFlight = 4;  // loads of a thread before the first is used

int64_t square_parts(int64_t n) {
  const int64_t runs = ceil_div<int64_t>(n, kSquareRun);
  return runs < kSquareParts ? runs : kSquareParts;
}

// Squares of float32 are added up in float64: gradients of 1e8 weights differ by many magnitudes.
template <int W>
__global__ void __launch_bounds__(kThreads, 4)
    square_parts_kernel(int64_t n, const float* values, double* parts) {
  const int64_t vectors = n / W, step = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  double sum = 0;
  for (int64_t first = thread; first < vectors; first += kInFlight * step) {
    float held[kInFlight][W];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int64_t at = first + i * step;
      load<W>(values + (at < vectors ? at : first) * W, held[i]);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i)
#pragma unroll
      for (int j = 0; j < W; ++j) {
        const auto value = static_cast<double>(first + i * step < vectors ? held[i][j] : 0.0f);
        sum = fma(value, value, sum);
      }
  }
  if (thread < n % W) {
    const auto value = static_cast<double>(values[vectors * W + thread]);
    sum = fma(value, value, sum);
  }
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// The group of an index. Indices ascend from call to call, so most calls compare once.
class GroupOf {
 public:
  __device__ __forceinline__ GroupOf(const AdamWRanges& ranges, int64_t first) : ranges_(ranges) {
    int low = 0, high = ranges.count;  // the range is in [low, high]; `count`: after the last
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (ranges.ends[middle] > first)
        high = middle;
      else
        low = middle + 1;
    }
    enter(low);
  }
  __device__ __forceinline__ AdamWGroup at(int64_t i) {
    while (i >= end_) enter(range_ + 1);
    return group_;
  }

 private:
  __device__ __forceinline__ void enter(int range) {
    range_ = range;
    const bool inside = range < ranges_.count;
    end_ = inside ? ranges_.ends[range] : INT64_MAX;
    group_ = inside ? ranges_.groups[ranges_.numbers[range]] : AdamWGroup{0.0f, 1.0f};
  }
  const AdamWRanges& ranges_;
  int range_;
  int64_t end_;
  AdamWGroup group_;
};

// W values from i on; `scale` scales and clips the gradient.
template <int W>
__device__ __forceinline__ void update(const AdamWBuffers& buffers, int64_t i,
                                       const AdamWStep& step, float scale, GroupOf& groups) {
  float g[W], w[W], m[W], v[W], average[W];
  load<W>(buffers.gradient + i, g);
  load<W>(buffers.weight + i, w);
  load<W>(buffers.m + i, m);
  load<W>(buffers.v + i, v);
  if (buffers.average != nullptr) load<W>(buffers.average + i, average);
#pragma unroll
  for (int j = 0; j < W; ++j) {
    g[j] *= scale;
    m[j] = fmaf(m[j], step.beta1, g[j] * (1.0f - step.beta1));
    v[j] = fmaf(v[j], step.beta2, g[j] * g[j] * (1.0f - step.beta2));
    const AdamWGroup group = groups.at(i + j);
    const float change =
        m[j] * group.rate / fmaf(sqrtf(v[j]), step.denominator_scale, step.epsilon);
    w[j] = fmaf(w[j], group.keep, -change);
  }
  store<W>(buffers.weight + i, w);
  store<W>(buffers.m + i, m);
  store<W>(buffers.v + i, v);
  if (buffers.copy != nullptr) store<W>(buffers.copy + i, w);
  if (buffers.average != nullptr) {
#pragma unroll
    for (int j = 0; j < W; ++j) average[j] = fmaf(average[j], step.ema, w[j] * (1.0f - step.ema));
    store<W>(buffers.average + i, average);
  }
}

constexpr int64_t kRun =
    8192;  // consecutive values of a block, which reads the norm and finds a range once

template <int W>
__global__ void __launch_bounds__(kThreads)
    adamw_kernel(int64_t n, const AdamWBuffers buffers, const AdamWRanges ranges,
                 const AdamWStep* at, const double* squares, float clip) {
  const AdamWStep step = *at;
  const double norm = sqrt(*squares) * static_cast<double>(step.gradient_scale);
  if (!isfinite(norm)) return;
  const auto most = static_cast<double>(clip);
  const auto scale = static_cast<float>((norm > most ? most / norm : 1.0) *
                                        static_cast<double>(step.gradient_scale));
  const int64_t begin = blockIdx.x * kRun, past = begin + kRun, end = past < n ? past : n;
  const int64_t first = begin + static_cast<int64_t>(threadIdx.x) * W;
  GroupOf groups(ranges, first);
  for (int64_t i = first; i < end; i += kThreads * W) {
    if (i + W <= end)
      update<W>(buffers, i, step, scale, groups);
    else
      for (int64_t k = i; k < end; ++k) update<1>(buffers, k, step, scale, groups);
  }
}

bool all_wide(const AdamWBuffers& b) {
  return is_wide(b.gradient, 0) && is_wide(b.weight, 0) && is_wide(b.m, 0) && is_wide(b.v, 0) &&
         is_wide(b.average, 0) && reinterpret_cast<uintptr_t>(b.copy) % 8 == 0;
}

}  // namespace

int64_t sum_of_squares_workspace(int64_t n) { return square_parts(n); }

cudaError_t sum_of_squares(int64_t n, const float* values, double* sum, double* workspace,
                           cudaStream_t stream) {
  const auto parts = static_cast<unsigned>(square_parts(n));
  if (n > 0) {
    if (is_wide(values, 0))
      square_parts_kernel<4><<<parts, kThreads, 0, stream>>>(n, values, workspace);
    else
      square_parts_kernel<1><<<parts, kThreads, 0, stream>>>(n, values, workspace);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) return error;
  }
  return launch_add_parts<false, double>(workspace, parts, 1, sum, nullptr, stream);
}

cudaError_t adamw(int64_t n, const AdamWBuffers& buffers, const AdamWRanges& ranges,
                  const AdamWStep* step, const double* squares, float clip, cudaStream_t stream) {
  if (n == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(ceil_div(n, kRun));
  if (all_wide(buffers))
    adamw_kernel<4><<<blocks, kThreads, 0, stream>>>(n, buffers, ranges, step, squares, clip);
  else
    adamw_kernel<1><<<blocks, kThreads, 0, stream>>>(n, buffers, ranges, step, squares, clip);
  return cudaGetLastError();
}

}  // namespace hydramix::cuda
