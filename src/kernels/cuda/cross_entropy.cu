// SPDX-License-Identifier: Apache-2.0
// One block per row. The row stays in registers in its storage type, so it is read and written
// once: 4 bytes per logit in bfloat16, 60 us for (2048, 30528) at 4.2 TB/s. The bias, twice as many
// bytes as a row, should stay in the L1 cache; so rows bypass that cache, and no shared memory is
// taken from it. Two exponentials per logit take 2 us per row and multiprocessor, half the time
// that memory takes; the second block of a multiprocessor fills the gaps of the first. A row that
// does not fit is read again, most likely from the L2 cache. Column sums read every gradient once,
// 30 us for the same chunk.
#include <cfloat>

#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/limits.h"
#include "kernels/cuda/partial_sums.cuh"

namespace hydramix::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kHeldColumns = 64;  // that a thread keeps in registers at most: rows up to 32768

__device__ __forceinline__ Packed<float, 4> load_once(const Packed<float, 4>* from) {
  const float4 v = __ldcs(reinterpret_cast<const float4*>(from));
  return {{v.x, v.y, v.z, v.w}};
}
__device__ __forceinline__ Packed<BFloat16, 8> load_once(const Packed<BFloat16, 8>* from) {
  const uint4 v = __ldcs(reinterpret_cast<const uint4*>(from));
  return {{v.x, v.y, v.z, v.w}};
}

// A thread's share of a row: W columns of every kThreads * W. `each` calls f(vector, values).
template <typename S, int W, int kHeld>
struct Row {
  Packed<S, W> held[kHeld];
  int vectors;

  __device__ __forceinline__ Row(const S* z, int columns) : vectors(columns / W) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x);
      if (at < vectors) held[i] = load_once(reinterpret_cast<const Packed<S, W>*>(z) + at);
    }
  }
  template <typename F>
  __device__ __forceinline__ void each(const F& f) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x);
      if (at < vectors) f(at, held[i]);
    }
  }
};

// Nothing is kept in registers: values are read at each use.
template <typename S, int W>
struct Row<S, W, 0> {
  const Packed<S, W>* z;
  int vectors;

  __device__ __forceinline__ Row(const S* row, int columns)
      : z(reinterpret_cast<const Packed<S, W>*>(row)), vectors(columns / W) {}
  template <typename F>
  __device__ __forceinline__ void each(const F& f) const {
#pragma unroll 4
    for (int at = static_cast<int>(threadIdx.x); at < vectors; at += kThreads) f(at, z[at]);
  }
};

// e^v for v <= 0 whose error does not depend on the size of a logit: the difference is exact first.
__device__ __forceinline__ float exp_below(float v) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(v * 1.44269504f));
  return result;
}

template <typename S, int W>
__device__ __forceinline__ void logits(const Packed<S, W>& z, const float* bias, int vector,
                                       float (&x)[W]) {
#pragma unroll
  for (int j = 0; j < W; ++j) x[j] = z[j];
  if (bias == nullptr) return;
  float b[W];
  load<W>(bias + vector * W, b);
#pragma unroll
  for (int j = 0; j < W; ++j) x[j] += b[j];
}

template <typename S, int W, int kHeld>
__global__ void __launch_bounds__(kThreads, sizeof(S) * W * kHeld > 2 * kHeldColumns ? 1 : 2)
    cross_entropy_kernel(const CrossEntropyRows<S> p) {
  constexpr int kWarps = kThreads / 32;
  __shared__ float tops[kWarps], sums[kWarps];

  S* const z = p.z + blockIdx.x * p.z_row;
  const Row<S, W, kHeld> row(z, p.columns);
  const int64_t target = p.targets[blockIdx.x];
  // Loaded now, used after the first pass; the second one overwrites it.
  const bool is_column = target >= 0 && target < p.columns;
  const S target_z = z[is_column ? target : 0];
  const float target_bias = p.bias == nullptr ? 0.0f : p.bias[is_column ? target : 0];
  const float scale = p.scale == nullptr ? 1.0f : *p.scale;

  // Largest logit so far, and the sum of exponentials relative to it. Starts at a finite value,
  // because -inf - -inf is NaN.
  float top = -FLT_MAX, sum = 0;
  row.each([&](int vector, const Packed<S, W>& values) {
    float x[W];
    logits(values, p.bias, vector, x);
    float higher = top, part = 0;
#pragma unroll
    for (int j = 0; j < W; ++j) higher = fmaxf(higher, x[j]);
#pragma unroll
    for (int j = 0; j < W; ++j) part += exp_below(x[j] - higher);
    sum = fmaf(sum, exp_below(top - higher), part);
    top = higher;
  });
  const float warp_top = warp_max(top);
  const float warp_total = warp_sum(sum * exp_below(top - warp_top));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == 0) {
    tops[threadIdx.x / 32] = warp_top;
    sums[threadIdx.x / 32] = warp_total;
  }
  __syncthreads();
  const float part_top = lane < kWarps ? tops[lane] : -FLT_MAX;
  const float part_sum = lane < kWarps ? sums[lane] : 0.0f;
  const float largest = warp_max(part_top);
  const float total = warp_sum(part_sum * exp_below(part_top - largest));

  if (target < 0) {
    if (threadIdx.x == 0) {
      p.loss[blockIdx.x] = 0;
      p.correct[blockIdx.x] = 0;
    }
    if (p.gradient)
      row.each([&](int vector, const Packed<S, W>&) {
        const float zeros[W] = {};
        store<W>(z + vector * W, zeros);
      });
    return;
  }

  const float wanted = is_column ? widen(target_z) + target_bias : NAN;
  // A target may tie with an earlier column: only threads that hold a largest logit check that.
  bool earlier = false;
  if (wanted == largest && top == largest)
    row.each([&](int vector, const Packed<S, W>& values) {
      float x[W];
      logits(values, p.bias, vector, x);
#pragma unroll
      for (int j = 0; j < W; ++j) earlier |= x[j] == largest && vector * W + j < target;
    });

  if (p.gradient) {
    const float share = scale / total;
    const int target_vector = static_cast<int>(target) / W;
    row.each([&](int vector, const Packed<S, W>& values) {
      float x[W];
      logits(values, p.bias, vector, x);
#pragma unroll
      for (int j = 0; j < W; ++j) x[j] = exp_below(x[j] - largest) * share;
      if (vector == target_vector) {
#pragma unroll
        for (int j = 0; j < W; ++j)
          if (vector * W + j == target) x[j] -= scale;
      }
      store<W>(z + vector * W, x);
    });
  }

  const bool beaten = __syncthreads_or(earlier);
  if (threadIdx.x == 0) {
    p.loss[blockIdx.x] = (largest - wanted) + logf(total);
    p.correct[blockIdx.x] = wanted == largest && !beaten;
  }
}

constexpr int kStripRows = 8;  // warps of a block of add_column_sums, each with rows of its own
constexpr int kInFlight = 4;   // rows that a thread reads before it adds the first

int64_t rows_of_part(int64_t rows) {
  const int64_t least = 128, most_parts = 4096;
  const int64_t needed = ceil_div(rows, most_parts);
  return needed < least ? least : needed;
}

// Block (strip of 32 * W columns, part of the rows) -> parts (part, columns).
template <typename S, int W>
__global__ void __launch_bounds__(32 * kStripRows)
    partial_sums_kernel(int64_t rows, int columns, const S* values, int64_t row, int64_t part_rows,
                        float* parts) {
  constexpr int kStrip = 32 * W;
  __shared__ float shared[kStripRows][kStrip];
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int64_t strip = static_cast<int64_t>(blockIdx.x) * kStrip, column = strip + lane * W;
  const int64_t begin = blockIdx.y * part_rows, past = begin + part_rows;
  const int64_t end = past < rows ? past : rows;
  float sum[W] = {};
  if (column < columns)
    for (int64_t first = begin + warp; first < end; first += kInFlight * kStripRows) {
      Packed<S, W> held[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int64_t r = first + i * kStripRows;
        if (r < end) held[i] = load_packed<W>(values + r * row + column);
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i)
        if (first + i * kStripRows < end) {
#pragma unroll
          for (int j = 0; j < W; ++j) sum[j] += held[i][j];
        }
    }
#pragma unroll
  for (int j = 0; j < W; ++j) shared[warp][lane * W + j] = sum[j];
  __syncthreads();
  for (int c = warp * 32 + lane; c < kStrip && strip + c < columns; c += 32 * kStripRows) {
    float total = 0;
#pragma unroll
    for (int i = 0; i < kStripRows; ++i) total += shared[i][c];
    parts[static_cast<int64_t>(blockIdx.y) * columns + strip + c] = total;
  }
}

constexpr int kLossThreads = 1024;

__global__ void __launch_bounds__(kLossThreads)
    loss_sums_kernel(int64_t rows, const float* loss, const uint8_t* correct, double* loss_sum,
                     int64_t* correct_sum) {
  double total = 0;
  int64_t hits = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kLossThreads) {
    total += static_cast<double>(loss[i]);
    hits += correct[i];
  }
  total = block_sum<kLossThreads>(total);
  hits = block_sum<kLossThreads>(hits);
  if (threadIdx.x != 0) return;
  *loss_sum += total;
  *correct_sum += hits;
}

}  // namespace

template <typename S>
cudaError_t cross_entropy(const CrossEntropyRows<S>& p, cudaStream_t stream) {
  if (p.rows >= kMostTokens) return cudaErrorInvalidValue;
  if (p.rows == 0 || p.columns == 0) return cudaSuccess;
  constexpr int W = kWide<S>;
  constexpr int kMost = kHeldColumns / W, kFew = kMost / 4;
  const auto blocks = static_cast<unsigned>(p.rows);
  const bool wide = is_wide(p.z, p.z_row) && is_wide(p.bias, 0) && p.columns % W == 0;
  if (!wide)
    cross_entropy_kernel<S, 1, 0><<<blocks, kThreads, 0, stream>>>(p);
  else if (p.columns <= kThreads * kFew * W)
    cross_entropy_kernel<S, W, kFew><<<blocks, kThreads, 0, stream>>>(p);
  else if (p.columns <= kThreads * kMost * W)
    cross_entropy_kernel<S, W, kMost><<<blocks, kThreads, 0, stream>>>(p);
  else
    cross_entropy_kernel<S, W, 0><<<blocks, kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

int64_t column_sums_workspace(int64_t rows, int columns) {
  return ceil_div(rows, rows_of_part(rows)) * columns;
}

template <typename S>
cudaError_t add_column_sums(int64_t rows, int columns, const S* values, int64_t row, float* sums,
                            float* workspace, cudaStream_t stream) {
  if (rows == 0 || columns == 0) return cudaSuccess;
  const int64_t part_rows = rows_of_part(rows), parts = ceil_div(rows, part_rows);
  const dim3 threads(32, kStripRows);
  const auto grid = [&](int width) {
    return dim3(static_cast<unsigned>(ceil_div(columns, 32 * width)), static_cast<unsigned>(parts));
  };
  constexpr int W = kWide<S>;
  if (is_wide(values, row) && columns % W == 0)
    partial_sums_kernel<S, W>
        <<<grid(W), threads, 0, stream>>>(rows, columns, values, row, part_rows, workspace);
  else
    partial_sums_kernel<S, 1>
        <<<grid(1), threads, 0, stream>>>(rows, columns, values, row, part_rows, workspace);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error;
  return launch_add_parts<true, float>(workspace, parts, columns, sums, nullptr, stream);
}

cudaError_t add_loss_sums(int64_t rows, const float* loss, const uint8_t* correct, double* loss_sum,
                          int64_t* correct_sum, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  loss_sums_kernel<<<1, kLossThreads, 0, stream>>>(rows, loss, correct, loss_sum, correct_sum);
  return cudaGetLastError();
}

template cudaError_t cross_entropy(const CrossEntropyRows<float>&, cudaStream_t);
template cudaError_t cross_entropy(const CrossEntropyRows<BFloat16>&, cudaStream_t);
template cudaError_t add_column_sums(int64_t, int, const float*, int64_t, float*, float*,
                                     cudaStream_t);
template cudaError_t add_column_sums(int64_t, int, const BFloat16*, int64_t, float*, float*,
                                     cudaStream_t);

}  // namespace hydramix::cuda
