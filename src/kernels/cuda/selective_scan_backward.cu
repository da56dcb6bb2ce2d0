// SPDX-License-Identifier: Apache-2.0
// The backward pass. With a_t = exp(dt_t A), the gradient g of the state runs backwards:
//
//   g_t = c_t dy_t + a_{t+1} g_{t+1}
//   dc_t = sum over channels of dy_t h_t,     db_t = sum over channels of dt_t x_t g_t
//   dA = sum_t dt_t a_t h_{t-1} g_t,          d(dt_t) = x_t (b_t . g_t) + sum over states of A a_t
//   h_{t-1} g_t dx_t = dt_t (b_t . g_t) + skip dy_t
//
// A block walks up its piece, tile by tile. The states of a tile are computed again, from the one
// that the forward pass stored: first at every eighth token, then, eight tokens at a time, all of
// them with their a, which stay in registers. Sums over the channels of a block go to memory; a
// second kernel adds those of all blocks.
#include <type_traits>

#include "kernels/cuda/partial_sums.cuh"
#include "kernels/cuda/selective_scan_launch.cuh"
#include "kernels/cuda/selective_scan_parts.cuh"

namespace hydramix::cuda::selective {
namespace {

template <int Q>
struct BackwardTile {
  float2 step[kTile<Q>]
             [kChannels<Q>];  // dt, x; at the end dx and the gradient of dt before softplus
  float dy[kTile<Q>][kChannels<Q>];
  SharedColumns<Q> columns;
  float4 starts[kTile<Q> / kBatch][kThreads];   // each thread's states before every eighth token
  float sums[2][kWarps][kBatch][2 * kOwn * Q];  // db and dc of a batch, of each warp's channels
  uint32_t begins;
};

// Stages dt, x (kGradient) and dy, b and c of a tile.
template <int Q, bool kGradient, typename S>
__device__ __forceinline__ void stage_tile(const Arguments<S>& p, int first, int end,
                                           int first_channel, bool wide, BackwardTile<Q>& tile) {
  using P = Part<Q, S>;
  typename P::Values x[P::kParts], raw[P::kParts], dy[P::kParts];
#pragma unroll
  for (int i = 0; i < P::kParts; ++i) {
    const P part(i);
    const int place = first + part.token;
    if (place >= end) continue;
    const int64_t row = row_of(p, place);
    const int c = first_channel + part.channel;
    if (kGradient) x[i] = load_row<P::V>(p.in.x, row, c, p.C, wide);
    raw[i] = load_row<P::V>(p.in.dt, row, c, p.C, wide);
    dy[i] = load_row<P::V>(p.dy, row, c, p.C, wide);
  }
  stage_columns(p, first, end, tile.columns);
  if (threadIdx.x < 32) {
    const uint32_t bits = beginnings<Q>(p, first, end);
    if (threadIdx.x == 0) tile.begins = bits;
  }
#pragma unroll
  for (int i = 0; i < P::kParts; ++i) {
    const P part(i);
    const bool inside = first + part.token < end;
#pragma unroll
    for (int v = 0; v < P::V; ++v) {
      const int c = first_channel + part.channel + v;
      const bool used = inside && c < p.C;
      const float dt = used ? step_of(p, raw[i][v], c) : 0.0f;
      tile.step[part.token][part.channel + v] = make_float2(dt, kGradient && used ? x[i][v] : 0.0f);
      tile.dy[part.token][part.channel + v] = used ? dy[i][v] : 0.0f;
    }
  }
}

// Only the gradient of the state that a piece starts from, and the sum of its dt.
template <int Q, typename S>
__global__ void __launch_bounds__(kThreads, 2)
    state_gradient_kernel(const Arguments<S> p, bool wide) {
  constexpr int N = kOwn * Q, T = kTile<Q>;
  extern __shared__ __align__(16) unsigned char shared[];
  auto& tile = *reinterpret_cast<BackwardTile<Q>*>(shared);
  const int own = threadIdx.x / Q, q = threadIdx.x % Q;
  const int first_channel = blockIdx.x * kChannels<Q>, channel = first_channel + own;
  const int begin = blockIdx.y * p.piece, end = min(begin + p.piece, p.n);
  const bool there = channel < p.C;
  float A[kOwn] = {}, g[kOwn] = {}, through = 0;
  if (there) load(p.in.A + int64_t{channel} * N + q * kOwn, A);
#pragma unroll
  for (int i = 0; i < kOwn; ++i) A[i] *= kLog2e;
  bool reset = false;
  for (int first = begin + (end - begin - 1) / T * T; first >= begin; first -= T) {
    __syncthreads();
    stage_tile<Q, false>(p, first, end, first_channel, wide, tile);
    __syncthreads();
#pragma unroll 8
    for (int t = T - 1; t >= 0; --t) {
      const float dt = tile.step[t][own].x, dy = tile.dy[t][own];
      const float4 c = tile.columns.c[t][q];
      through += dt;
      g[0] = fmaf(c.x, dy, g[0]) * exp2_fast(dt * A[0]);
      g[1] = fmaf(c.y, dy, g[1]) * exp2_fast(dt * A[1]);
      g[2] = fmaf(c.z, dy, g[2]) * exp2_fast(dt * A[2]);
      g[3] = fmaf(c.w, dy, g[3]) * exp2_fast(dt * A[3]);
      if (tile.begins >> t & 1) {
        reset = true;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) g[i] = 0;
      }
    }
  }
  if (!there) return;
  store(p.carried + (int64_t{blockIdx.y} * p.C + channel) * N + q * kOwn, g);
  if (q == 0) p.through[int64_t{blockIdx.y} * p.C + channel] = reset ? INFINITY : through;
}

template <int Q, typename S>
__global__ void __launch_bounds__(kThreads, 2) gradient_kernel(const Arguments<S> p, bool wide) {
  constexpr int N = kOwn * Q, T = kTile<Q>, kBatches = T / kBatch;
  using P = Part<Q, S>;
  extern __shared__ __align__(16) unsigned char shared[];
  auto& tile = *reinterpret_cast<BackwardTile<Q>*>(shared);
  const int own = threadIdx.x / Q, q = threadIdx.x % Q, warp = threadIdx.x / 32;
  const int first_channel = blockIdx.x * kChannels<Q>, channel = first_channel + own;
  const int begin = blockIdx.y * p.piece, end = min(begin + p.piece, p.n);
  const bool there = channel < p.C;
  const int64_t at_state = int64_t{channel} * N + q * kOwn;

  float A[kOwn] = {}, g[kOwn] = {}, dA[kOwn] = {}, dbias = 0, dskip = 0;
  if (there) {
    load(p.in.A + at_state, A);
    if (p.carried != nullptr) load(p.carried + int64_t{blockIdx.y} * p.C * N + at_state, g);
  }
  const float skip = there && p.in.skip != nullptr ? p.in.skip[channel] : 0.0f;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) A[i] *= kLog2e;

  // The state after token t.
  const auto forward = [&](int t, float(&h)[kOwn], float(&a)[kOwn]) {
    if (tile.begins >> t & 1) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) h[i] = 0;
    }
    const float2 step = tile.step[t][own];
    const float4 b4 = tile.columns.b[t][q];
    const float b[kOwn] = {b4.x, b4.y, b4.z, b4.w}, u = step.x * step.y;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      a[i] = exp2_fast(step.x * A[i]);
      h[i] = fmaf(a[i], h[i], u * b[i]);
    }
  };

  int turn = 0;
  for (int first = begin + (end - begin - 1) / T * T; first >= begin; first -= T) {
    float h[kOwn] = {};
    if (there) load(p.states + int64_t{first / T} * p.C * N + at_state, h);
    __syncthreads();  // the gradients of the tile before are stored
    stage_tile<Q, true>(p, first, end, first_channel, wide, tile);
    __syncthreads();
#pragma unroll 1
    for (int batch = 0; batch < kBatches; ++batch) {
      tile.starts[batch][threadIdx.x] = make_float4(h[0], h[1], h[2], h[3]);
      if (batch + 1 == kBatches) break;
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        float a[kOwn];
        forward(batch * kBatch + j, h, a);
      }
    }
#pragma unroll 1
    for (int batch = kBatches - 1; batch >= 0; --batch, turn ^= 1) {
      const int t0 = batch * kBatch;
      // states[j]: the state before token j, of the same sequence or of the one before.
      float states[kBatch + 1][kOwn], a[kBatch][kOwn];
      const float4 start = tile.starts[batch][threadIdx.x];
      states[0][0] = start.x, states[0][1] = start.y, states[0][2] = start.z,
      states[0][3] = start.w;
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
#pragma unroll
        for (int i = 0; i < kOwn; ++i) states[j + 1][i] = states[j][i];
        forward(t0 + j, states[j + 1], a[j]);
      }
      float bg[kBatch], decay[kBatch];  // b . g, and the sum of A a h g
#pragma unroll
      for (int j = kBatch - 1; j >= 0; --j) {
        const float2 step = tile.step[t0 + j][own];
        const float4 b4 = tile.columns.b[t0 + j][q], c4 = tile.columns.c[t0 + j][q];
        const float b[kOwn] = {b4.x, b4.y, b4.z, b4.w}, c[kOwn] = {c4.x, c4.y, c4.z, c4.w};
        const float dy = tile.dy[t0 + j][own], u = step.x * step.y;
        float sums[2 * kOwn];  // of b, then of c
        bg[j] = 0, decay[j] = 0;
        const bool first_of_sequence = tile.begins >> (t0 + j) & 1;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          g[i] = fmaf(c[i], dy, g[i]);
          sums[i] = u * g[i];
          sums[kOwn + i] = dy * states[j + 1][i];
          bg[j] = fmaf(b[i], g[i], bg[j]);
          g[i] *= a[j][i];
          const float decayed = g[i] * (first_of_sequence ? 0.0f : states[j][i]);
          decay[j] = fmaf(A[i], decayed, decay[j]);
          dA[i] = fmaf(step.x, decayed, dA[i]);
        }
        if (first_of_sequence) {
#pragma unroll
          for (int i = 0; i < kOwn; ++i) g[i] = 0;
        }
        constexpr int kLanes = 32 / Q, kKept = kLanes < 2 * kOwn ? 2 * kOwn / kLanes : 1;
        spread_sum<kLanes, Q>(sums);
        if (spread_writes<kLanes, Q, 2 * kOwn>()) {
          const int kept = spread_first<kLanes, Q, 2 * kOwn>();
#pragma unroll
          for (int i = 0; i < kKept; ++i) {
            const int k = kept + i;
            tile.sums[turn][warp][j][k / kOwn * N + q * kOwn + k % kOwn] = sums[i];
          }
        }
      }
      spread_sum<Q, 1>(bg), spread_sum<Q, 1>(decay);
      if (spread_writes<Q, 1, kBatch>()) {
        constexpr int kKept = Q < kBatch ? kBatch / Q : 1;
        const int kept = t0 + spread_first<Q, 1, kBatch>();
#pragma unroll
        for (int j = 0; j < kKept; ++j) {
          float2& step = tile.step[kept + j][own];
          const float dy = tile.dy[kept + j][own];
          const float ddt = fmaf(step.y, bg[j], decay[j] * kLn2) * slope_of(p, step.x);
          dskip = fmaf(dy, step.y, dskip);
          dbias += ddt;
          step = make_float2(fmaf(step.x, bg[j], skip * dy), ddt);
        }
      }
      __syncthreads();
      for (int i = threadIdx.x; i < kBatch * 2 * N; i += kThreads) {
        const int j = i / (2 * N), column = i % (2 * N), place = first + t0 + j;
        if (place >= end) continue;
        float sum = 0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) sum += tile.sums[turn][w][j][column];
        p.dbc[(int64_t{blockIdx.x} * p.n + row_of(p, place)) * 2 * N + column] = sum;
      }
    }
    // The barrier of the last batch came after all gradients of the tile.
#pragma unroll
    for (int i = 0; i < P::kParts; ++i) {
      const P part(i);
      const int place = first + part.token;
      if (place >= end) continue;
      float dx[P::V], ddt[P::V];
#pragma unroll
      for (int v = 0; v < P::V; ++v) {
        const float2 pair = tile.step[part.token][part.channel + v];
        dx[v] = pair.x, ddt[v] = pair.y;
      }
      store_row(p.dx, row_of(p, place), first_channel + part.channel, p.C, wide, dx);
      store_row(p.ddt, row_of(p, place), first_channel + part.channel, p.C, wide, ddt);
    }
  }

#pragma unroll
  for (int w = Q / 2; w >= 1; w /= 2) {
    dbias += __shfl_xor_sync(0xffffffffu, dbias, w);
    dskip += __shfl_xor_sync(0xffffffffu, dskip, w);
  }
  if (!there) return;
  store(p.dA + int64_t{blockIdx.y} * p.C * N + at_state, dA);
  if (q != 0) return;
  p.dbias[int64_t{blockIdx.y} * p.C + channel] = dbias;
  p.dskip[int64_t{blockIdx.y} * p.C + channel] = dskip;
}

template <int Q, typename S>
cudaError_t launch(void (*kernel)(const Arguments<S>, bool), const Arguments<S>& p, bool wide,
                   cudaStream_t stream) {
  constexpr int kBytes = static_cast<int>(sizeof(BackwardTile<Q>));
  if (const auto e =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
      e != cudaSuccess)
    return e;
  const dim3 grid(ceil_div(p.C, kChannels<Q>), ceil_div(p.n, p.piece));
  kernel<<<grid, kThreads, kBytes, stream>>>(p, wide);
  return cudaGetLastError();
}

}  // namespace

template <int Q, typename S>
cudaError_t launch_backward(const Arguments<S>& p, bool wide, cudaStream_t stream) {
  if (p.carried != nullptr) {
    if (const auto e = launch<Q>(state_gradient_kernel<Q, S>, p, wide, stream); e != cudaSuccess)
      return e;
    const int pieces = ceil_div(p.n, p.piece);
    if (const auto e =
            launch_carry<true>(pieces, p.C, kOwn * Q, p.in.A, p.through, p.carried, stream);
        e != cudaSuccess)
      return e;
  }
  return launch<Q>(gradient_kernel<Q, S>, p, wide, stream);
}

#define HYDRAMIX_SELECTIVE(Q)                                                           \
  template cudaError_t launch_backward<Q>(const Arguments<float>&, bool, cudaStream_t); \
  template cudaError_t launch_backward<Q>(const Arguments<BFloat16>&, bool, cudaStream_t);
HYDRAMIX_SELECTIVE(1)
HYDRAMIX_SELECTIVE(2)
HYDRAMIX_SELECTIVE(4)
HYDRAMIX_SELECTIVE(8)
HYDRAMIX_SELECTIVE(16)

}  // namespace hydramix::cuda::selective
