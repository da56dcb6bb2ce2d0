// SPDX-License-Identifier: Apache-2.0
// A warp owns 32 neighbouring groups of V channels and walks down a run of tokens. The K rows that
// an output sees stay in registers as a ring, so that a row is read from memory once (twice where
// runs meet). Meanwhile the next few rows are copied to shared memory.
//
// Bytes at n tokens, C channels of bfloat16: forward 4 n C (n = 16384, C = 1792: 117 MB, 28 us at
// 4.2 TB/s), backward 6 n C (176 MB, 42 us). At K = 7 a value takes 16 instructions forward, which
// is half of what the time of its bytes allows, and 38 backward, which is nearly all of it.
#include "kernels/cuda/conv.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/conv_any.cuh"
#include "kernels/cuda/conv_walk.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/limits.h"
#include "kernels/cuda/reference_gpu.h"

namespace hydramix::cuda {
namespace {

using namespace conv;

constexpr int kResident = 3;  // blocks per multiprocessor; a thread may use 168 registers
constexpr int64_t kBlocks = kReferenceProcessors * kResident;  // one round

// Unrolled steps: a multiple of K, so that places in the ring are compile-time constants, and
// enough to keep loads in flight.
template <int K>
constexpr int kSteps = ceil_div(4, K) * K;

// Values of a thread: 16 bytes, or what fits into registers. Forward a value takes 2 K of them,
// backward 4 K.
template <int K, typename S>
constexpr int kForwardValues = K < 8 ? kWide<S> : 4;
template <int K>
constexpr int kBackwardValues = K < 8 ? 4 : 2;

template <int K, int V, typename S>
__global__ void __launch_bounds__(kThreads, kResident) forward_kernel(const Arguments<S> p) {
  constexpr int T = kSteps<K>;
  __shared__ __align__(16) float tile[K + 1][kLanes * V];
  __shared__ Stored<V, S> next[T][kThreads];  // the rows that the next T steps add
  const int thread = threadIdx.y * kLanes + threadIdx.x;
  stage_taps<K, V>(p, tile);
  const int c = (blockIdx.x * kLanes + threadIdx.x) * V;
  const int begin = run_begin(p, threadIdx.y), end = run_begin(p, threadIdx.y + 1);
  if (c >= p.C || begin == end) return;

  const bool silu = c < p.silu;
  const int ahead = K - 1 - p.centre;
  float taps[K][V], bias[V];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    bias[v] = tile[K][threadIdx.x * V + v];
#pragma unroll
    for (int k = 0; k < K; ++k) taps[k][v] = tile[k][threadIdx.x * V + v];
  }

  float window[K][V] = {};  // inputs of the output of a step; tap k of step j in (j + k) % K
#pragma unroll
  for (int k = 0; k < K - 1; ++k) {
    const int row = begin - p.centre + k;
    if (row >= 0 && row < p.n) unpack<S>(fetch<V>(p.x + row * p.x_row + c), window[k]);
  }
  const S* x = p.x + (begin + ahead) * p.x_row + c;  // the row that step 0 adds
  S* y = p.y + begin * p.y_row + c;
  int left = min(p.n, end + ahead) - (begin + ahead);  // rows from the batch's first on
#pragma unroll
  for (int j = 0; j < T; ++j, x += p.x_row) {
    if (j < left) copy_ahead<V>(&next[j][thread], x);
    end_group();
  }

  // Steps t to t + T - 1. Masked: a sequence or the run begins or ends within the window.
  const auto batch = [&](auto masked, int t, int2 sequence) {
    constexpr bool kMasked = decltype(masked)::value;
#pragma unroll
    for (int j = 0; j < T; ++j) {
      wait_for_all_but<T - 1>();
      unpack<S>(next[j][thread], window[(j + K - 1) % K]);
      if (j < left) copy_ahead<V>(&next[j][thread], x);
      end_group();
      advance(x, p.x_row);
      unsigned inside = 0;  // bit k: tap k is in the sequence
      if (kMasked) {
        if (t + j >= sequence.y) sequence = sequence_of(p, t + j);
        const int first = t + j - p.centre;
        inside = bits<K>(sequence.x - first, sequence.y - first);
      }
      float u[V];
#pragma unroll
      for (int v = 0; v < V; ++v) {
        u[v] = bias[v];
#pragma unroll
        for (int k = 0; k < K; ++k) {
          const float value = window[(j + k) % K][v];
          u[v] = fmaf(taps[k][v], !kMasked || (inside >> k & 1) ? value : 0.0f, u[v]);
        }
        const float activated = u[v] * sigmoid(u[v]);
        u[v] = silu ? activated : u[v];
      }
      __builtin_assume(__isGlobal(y));
      if (!kMasked || t + j < end) store<V>(y, u);
      advance(y, p.y_row);
    }
  };
  int2 around = sequence_of(p, begin);
  for (int t = begin; t < end; t += T) {
    const int2 sequence = around;
    around = sequence_of(p, t + T);
    left -= T;
    if (t - p.centre >= sequence.x && t + T - 1 + ahead < sequence.y && t + T <= end)
      batch(std::false_type{}, t, sequence);
    else
      batch(std::true_type{}, t, sequence);
  }
}

// Step i of a run takes in row begin + i of x. That completes the window of token t, `ahead` rows
// before, and so its gradient g before SiLU. That in turn completes the outputs that read token s,
// centre rows before t. A run's first K - 1 steps only fill the rings.
template <int K, int V, typename S>
__global__ void __launch_bounds__(kThreads, kResident) backward_kernel(const Arguments<S> p) {
  constexpr int T = kSteps<K>;
  __shared__ __align__(16) float tile[K + 1][kLanes * V];
  __shared__ Stored<V, S> next_x[T][kThreads], next_dy[T][kThreads];
  const int thread = threadIdx.y * kLanes + threadIdx.x;
  stage_taps<K, V>(p, tile);
  const int c = (blockIdx.x * kLanes + threadIdx.x) * V;
  const int begin = run_begin(p, threadIdx.y), end = run_begin(p, threadIdx.y + 1);
  float sums[K + 1][V] = {};  // of this run's tokens: the gradient of the taps, and of the bias

  if (c < p.C && begin < end) {
    const bool silu = c < p.silu;
    const int ahead = K - 1 - p.centre;
    float taps[K][V];
#pragma unroll
    for (int k = 0; k < K; ++k) load(&tile[k][threadIdx.x * V], taps[k]);

    float window[K][V] = {};  // of x: tap k of step j in (j + k) % K
    float g[K][V] = {};       // that of the token k before step j's in (j + K - k) % K
#pragma unroll
    for (int k = 0; k < K - 1; ++k) {
      const int row = begin - (K - 1) + k;
      if (row >= 0) unpack<S>(fetch<V>(p.x + row * p.x_row + c), window[k]);
    }
    const S* x = p.x + begin * p.x_row + c;
    const S* dy = p.dy + (begin - ahead) * p.dy_row + c;
    S* dx = p.dx + (begin - (K - 1)) * p.dx_row + c;
    // Rows of x and dy from the batch's first on.
    int x_left = min(p.n, end + K - 1) - begin;
    int dy_left = min(p.n, end + p.centre) - (begin - ahead);
#pragma unroll
    for (int j = 0; j < T; ++j, x += p.x_row, dy += p.dy_row) {
      if (j < x_left) copy_ahead<V>(&next_x[j][thread], x);
      if (begin - ahead + j >= 0 && j < dy_left) copy_ahead<V>(&next_dy[j][thread], dy);
      end_group();
    }

    const auto batch = [&](auto masked, int first, int2 seen) {
      constexpr bool kMasked = decltype(masked)::value;
      int2 seeing = seen;
      if (kMasked) seeing = sequence_of(p, first - p.centre);
#pragma unroll
      for (int j = 0; j < T; ++j) {
        const int t = first + j, s = t - p.centre;
        wait_for_all_but<T - 1>();
        unpack<S>(next_x[j][thread], window[(j + K - 1) % K]);
        float after[V];  // dy
        unpack<S>(next_dy[j][thread], after);
        if (j < x_left) copy_ahead<V>(&next_x[j][thread], x);
        if (j < dy_left) copy_ahead<V>(&next_dy[j][thread], dy);
        end_group();
        advance(x, p.x_row), advance(dy, p.dy_row);

        unsigned inside = 0;  // bit k: tap k of t is in its sequence
        unsigned saw = 0;     // bit k: token t - k saw s
        bool counted = true, written = true;
        if (kMasked) {
          if (t >= seen.y) seen = sequence_of(p, t);
          if (s >= seeing.y) seeing = sequence_of(p, s);
          counted = begin <= t && t < end, written = begin <= s && s < end;
          inside = bits<K>(seen.x - s, seen.y - s);
          saw = written ? bits<K>(t - seeing.y + 1, t - seeing.x + 1) : 0;
        }
        float bias[V], sum[V];
        load(&tile[K][threadIdx.x * V], bias);  // reloaded each time to save registers
#pragma unroll
        for (int v = 0; v < V; ++v) {
          float u = bias[v];
#pragma unroll
          for (int k = 0; k < K; ++k) {
            const float value = window[(j + k) % K][v];
            u = fmaf(taps[k][v], !kMasked || (inside >> k & 1) ? value : 0.0f, u);
          }
          const float scaled = after[v] * silu_slope(u, sigmoid(u));
          g[j % K][v] = silu ? scaled : after[v];
          sums[K][v] += counted ? g[j % K][v] : 0.0f;

          // Output t - k saw token s, the oldest row of the window, through tap k.
          sum[v] = 0.0f;
          const float value = written ? window[j % K][v] : 0.0f;
#pragma unroll
          for (int k = 0; k < K; ++k) {
            const float before = g[(j + K - k) % K][v];
            const float gradient = !kMasked || (saw >> k & 1) ? before : 0.0f;
            sum[v] = fmaf(taps[k][v], gradient, sum[v]);
            sums[k][v] = fmaf(gradient, value, sums[k][v]);
          }
        }
        __builtin_assume(__isGlobal(dx));
        if (written) store<V>(dx, sum);
        advance(dx, p.dx_row);
      }
    };
    int2 around = sequence_of(p, begin - ahead);
    for (int t = begin - ahead; t < end + p.centre; t += T) {
      const int2 sequence = around;
      around = sequence_of(p, t + T);
      x_left -= T, dy_left -= T;
      if (t >= begin + p.centre && t + T <= end && t - (K - 1) >= sequence.x &&
          t + T - 1 + ahead < sequence.y)
        batch(std::false_type{}, t, sequence);
      else
        batch(std::true_type{}, t, sequence);
    }
  }

  // The warps' sums one after the other, in the tile that held the taps.
  for (int warp = 0; warp < kWarps; ++warp) {
    __syncthreads();
    if (static_cast<int>(threadIdx.y) != warp) continue;
#pragma unroll
    for (int k = 0; k <= K; ++k)
#pragma unroll
      for (int v = 0; v < V; ++v) {
        float& sum = tile[k][threadIdx.x * V + v];
        sum = warp == 0 ? sums[k][v] : sum + sums[k][v];
      }
  }
  __syncthreads();
  const int first = blockIdx.x * kLanes * V;
  for (int i = thread; i < (K + 1) * kLanes * V; i += kThreads) {
    const int k = i / (kLanes * V), column = i % (kLanes * V);
    if (first + column < p.C)
      p.partial[(int64_t{blockIdx.y} * (K + 1) + k) * p.C + first + column] = tile[k][column];
  }
}

struct Cut {
  int64_t parts;  // blocks along the tokens
  int run;        // tokens of a warp
};

// Runs of at least `least` tokens, so that few rows are read twice, and no more blocks than the
// device runs at once.
Cut cut(const ConvShape& shape, int64_t channels, int64_t least) {
  const int64_t most = std::max<int64_t>(1, kBlocks / ceil_div(shape.C, channels));
  const int64_t parts = std::min(most, ceil_div(shape.n, kWarps * least));
  const int64_t run = ceil_div(shape.n, parts * kWarps);
  return {ceil_div(shape.n, run * kWarps), static_cast<int>(run)};
}
// Independent of the number of values per thread, because the order of sums and the workspace
// depend on it.
Cut cut_backward(const ConvShape& shape) { return cut(shape, kLanes * 4, 32); }

template <int K, int V, typename S>
cudaError_t launch_forward(const ConvShape& shape, Arguments<S> p, cudaStream_t stream) {
  const auto [parts, run] = cut(shape, kLanes * V, 16);
  p.run = run;
  const dim3 grid(ceil_div<int64_t>(shape.C, kLanes * V), parts);
  forward_kernel<K, V><<<grid, dim3(kLanes, kWarps), 0, stream>>>(p);
  return cudaGetLastError();
}

template <int K, int V, typename S>
cudaError_t launch_backward(const ConvShape& shape, const Arguments<S>& p, int64_t parts,
                            cudaStream_t stream) {
  const dim3 grid(ceil_div<int64_t>(shape.C, kLanes * V), parts);
  backward_kernel<K, V><<<grid, dim3(kLanes, kWarps), 0, stream>>>(p);
  return cudaGetLastError();
}

template <typename S>
cudaError_t launch_any_backward(const ConvShape& shape, const Arguments<S>& p, int64_t parts,
                                cudaStream_t stream) {
  const dim3 block(32, kAnyTokens);
  const int64_t columns = ceil_div<int64_t>(shape.C, 32);
  const dim3 grid(ceil_div<int64_t>(shape.n, kAnyTokens), columns);
  any_gradient_kernel<<<grid, block, 0, stream>>>(p);
  if (const auto e = cudaGetLastError(); e != cudaSuccess) return e;
  any_input_kernel<<<grid, block, 0, stream>>>(p);
  if (const auto e = cudaGetLastError(); e != cudaSuccess) return e;
  const dim3 taps(ceil_div<int64_t>(shape.K + 1, kAnyTokens), parts, columns);
  any_taps_kernel<<<taps, block, 0, stream>>>(p, int64_t{p.run} * kWarps);
  return cudaGetLastError();
}

// Calls launch with K as a constant.
template <typename Launch>
cudaError_t with_width(int64_t K, const Launch& launch) {
  switch (K) {
    case 1:
      return launch(std::integral_constant<int, 1>{});
    case 2:
      return launch(std::integral_constant<int, 2>{});
    case 3:
      return launch(std::integral_constant<int, 3>{});
    case 4:
      return launch(std::integral_constant<int, 4>{});
    case 5:
      return launch(std::integral_constant<int, 5>{});
    case 6:
      return launch(std::integral_constant<int, 6>{});
    case 7:
      return launch(std::integral_constant<int, 7>{});
    default:
      return launch(std::integral_constant<int, 8>{});
  }
}
constexpr int64_t kWidest = 8;

bool is_shape(const ConvShape& s) {
  return s.n >= 0 && s.n < kMostTokens && s.C >= 0 && s.C < kMostTokens && s.K >= 1 &&
         s.K < kMostTokens && s.centre >= 0 && s.centre < s.K && s.silu >= 0 && s.silu <= s.C;
}

// The fields that both passes have.
template <typename Pass>
auto arguments(const Pass& pass, const int2* bounds) {
  const ConvShape& s = pass.shape;
  Arguments<std::remove_const_t<std::remove_pointer_t<decltype(pass.x.data)>>> p{};
  p.n = static_cast<int>(s.n), p.K = static_cast<int>(s.K), p.centre = static_cast<int>(s.centre);
  p.C = static_cast<int>(s.C), p.silu = static_cast<int>(s.silu), p.bounds = bounds;
  p.weight = pass.weight, p.bias = pass.bias, p.x = pass.x.data, p.x_row = pass.x.stride;
  return p;
}

// Whether no thread's values straddle the last channel or the last one with SiLU.
template <typename S>
bool is_wide(const ConvShape& s) {
  return s.C % kWide<S> == 0 && s.silu % kWide<S> == 0;
}
template <typename T>
bool is_wide(const kernels::StridedRows<T>& rows) {
  return cuda::is_wide(rows.data, rows.stride);
}

}  // namespace

template <typename S>
cudaError_t conv_forward(const ConvForward<S>& pass, const int2* bounds, cudaStream_t stream) {
  const ConvShape& shape = pass.shape;
  if (!is_shape(shape)) return cudaErrorInvalidValue;
  if (shape.n == 0 || shape.C == 0) return cudaSuccess;
  auto p = arguments(pass, bounds);
  p.y = pass.y.data, p.y_row = pass.y.stride;
  if (shape.K > kWidest) {
    const dim3 grid(ceil_div<int64_t>(shape.n, kAnyTokens), ceil_div<int64_t>(shape.C, 32));
    any_forward_kernel<<<grid, dim3(32, kAnyTokens), 0, stream>>>(p);
    return cudaGetLastError();
  }
  const bool wide = is_wide<S>(shape) && is_wide(pass.x) && is_wide(pass.y);
  return with_width(shape.K, [&](auto K) {
    return wide ? launch_forward<K, kForwardValues<K, S>>(shape, p, stream)
                : launch_forward<K, 1>(shape, p, stream);
  });
}

int64_t conv_backward_workspace(const ConvShape& shape) {
  if (!is_shape(shape) || shape.n == 0 || shape.C == 0) return 0;
  const int64_t sums = cut_backward(shape).parts * (shape.K + 1) * shape.C;
  return shape.K > kWidest ? sums + shape.n * shape.C : sums;
}

template <typename S>
cudaError_t conv_backward(const ConvBackward<S>& pass, const int2* bounds, cudaStream_t stream) {
  const ConvShape& shape = pass.shape;
  if (!is_shape(shape)) return cudaErrorInvalidValue;
  if (shape.C == 0) return cudaSuccess;
  int64_t parts = 0;  // without tokens the sums are zero, and are written too
  if (shape.n > 0) {
    auto p = arguments(pass, bounds);
    p.dy = pass.dy.data, p.dy_row = pass.dy.stride;
    p.dx = pass.dx.data, p.dx_row = pass.dx.stride;
    const Cut cut = cut_backward(shape);
    parts = cut.parts, p.run = cut.run, p.partial = pass.workspace;
    p.g = pass.workspace + parts * (shape.K + 1) * shape.C;
    const bool wide = is_wide<S>(shape) && is_wide(pass.x) && is_wide(pass.dy) && is_wide(pass.dx);
    const cudaError_t error =
        shape.K > kWidest
            ? launch_any_backward(shape, p, parts, stream)
            : with_width(shape.K, [&](auto K) {
                return wide ? launch_backward<K, kBackwardValues<K>>(shape, p, parts, stream)
                            : launch_backward<K, 1>(shape, p, parts, stream);
              });
    if (error != cudaSuccess) return error;
  }
  const int64_t values = (shape.K + 1) * shape.C;
  sum_parts_kernel<<<ceil_div<int64_t>(values, 32), dim3(32, kSlices), 0, stream>>>(
      pass.workspace, static_cast<int>(parts), shape.K, shape.C, pass.dweight, pass.dbias);
  return cudaGetLastError();
}

#define HYDRAMIX_CONV(S)                                                                  \
  template cudaError_t conv_forward<S>(const ConvForward<S>&, const int2*, cudaStream_t); \
  template cudaError_t conv_backward<S>(const ConvBackward<S>&, const int2*, cudaStream_t);
HYDRAMIX_CONV(float)
HYDRAMIX_CONV(BFloat16)

}  // namespace hydramix::cuda
