// SPDX-License-Identifier: Apache-2.0
// States at the borders of tiles. First every tile computes its own contribution to a state, P x N.
// Then every value of a state passes through all tiles in the order of its direction, and replaces
// the contribution of each tile by the state that enters it. The gradients of states are computed
// likewise from dy and c, in the opposite order. The second step has one multiplication per tile,
// and the loads of several tiles are in flight, so that even a million tokens (8000 tiles) take
// less than a millisecond.
//
// Floor: states are written, read and written again, 12 P N / kTile bytes per token and direction.
#include "kernels/cuda/plain_scan_parts.cuh"

namespace hydramix::cuda::plain {
namespace {

constexpr int kInFlight = 16;  // tiles

template <typename S>
struct Arguments {
  Problem<S> p;
  bool gradient;
  StridedRows<const S> u;  // x, or dy
  float* states;
};

__device__ __forceinline__ int64_t index(const Steps& steps, int d, int tile, int h) {
  return (static_cast<int64_t>(d) * steps.tiles + tile) * steps.H + h;
}

template <typename S>
__global__ void __launch_bounds__(kThreads) tile_states_kernel(const Arguments<S> a) {
  __shared__ Stage stages[2];
  __shared__ float weights[kTile];
  __shared__ int tokens[kTile];  // whose b, or c
  const Problem<S>& p = a.p;
  const int P = p.shape.P, N = p.shape.N, across = (N + kBlock - 1) / kBlock;
  const int tile = blockIdx.x, h = blockIdx.y, d = blockIdx.z % 2;
  const int p0 = static_cast<int>(blockIdx.z) / 2 / across * kBlock;
  const int n0 = static_cast<int>(blockIdx.z) / 2 % across * kBlock;
  if (!p.shape.on[d]) return;
  const Span s = tile_span(p.layout, tile);
  const int g = h / (p.shape.H / p.shape.G);
  const S* v = a.gradient ? p.in.direction[d].c.data : p.in.direction[d].b.data;
  const int64_t v_row = a.gradient ? p.in.direction[d].c.stride : p.in.direction[d].b.stride;

  float acc[4][4] = {};
  // Only the rows of the sequence that continues. Others must not affect the state, even if they
  // are not finite.
  const int way = a.gradient ? 1 - d : d;
  const Window own = s.rows > 0 ? crossing(p.layout, way, s).rows : Window{0, 0};
  if (own.low < own.high) {
    const double* sums = p.steps.sums_of(d, h);
    for (int r = own.low + threadIdx.x; r < own.high; r += kThreads) {
      const int t = s.begin + r;
      weights[r] = a.gradient ? decay(reach_of(sums, d, p.shape.shift, s, r))
                              : decay(sums[far_token(d, s)] - sums[t]) * p.steps.dts_of(d, h)[t];
      tokens[r] = a.gradient ? source(p.layout, p.shape.shift, d, t) : t;
    }
    __syncthreads();
    const auto u = operand<false>(
        [&](int r, int j) {
          return p0 + r < P ? a.u.data[(s.begin + own.low + j) * a.u.stride + h * P + p0 + r] : S();
        },
        [&](S loaded, int, int j) { return widen(loaded) * weights[own.low + j]; });
    const auto rows = operand<false>([&](int c, int j) {
      const int t = tokens[own.low + j];
      return n0 + c < N && t >= 0 ? v[t * v_row + g * N + n0 + c] : S();
    });
    multiply(stages, own.high - own.low, u, rows, acc);
  }
  float* to = a.states + index(p.steps, d, tile, h) * P * N;
#pragma unroll
  for (int r = 0; r < 4; ++r)
    if (p0 + own_row(r) < P)
      store_four(to + static_cast<int64_t>(p0 + own_row(r)) * N + n0 + own_column(0), acc[r],
                 N - n0 - own_column(0));
}

// Replaces the contribution of a tile by the state that enters it.
template <typename S>
__global__ void __launch_bounds__(kThreads) walk_kernel(const Arguments<S> a) {
  const Problem<S>& p = a.p;
  const int h = blockIdx.y, d = blockIdx.z, tiles = p.layout.tiles, size = p.shape.P * p.shape.N;
  const int e = blockIdx.x * kThreads + threadIdx.x;
  if (!p.shape.on[d] || e >= size) return;
  const bool up = (d == 0) != a.gradient;
  double state = 0;
  for (int first = 0; first < tiles; first += kInFlight) {
    float adds[kInFlight];
    double tile_decays[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int tile = up ? first + i : tiles - 1 - first - i;
      if (first + i >= tiles) continue;
      adds[i] = a.states[index(p.steps, d, tile, h) * size + e];
      tile_decays[i] = p.steps.tile_decay(d, tile, h);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int tile = up ? first + i : tiles - 1 - first - i;
      if (first + i >= tiles) continue;
      a.states[index(p.steps, d, tile, h) * size + e] = static_cast<float>(state);
      // A sequence ends here: its state, even if not finite, has no effect.
      state =
          tile_decays[i] == 0 ? adds[i] : fma(tile_decays[i], state, static_cast<double>(adds[i]));
    }
  }
}

}  // namespace

template <typename S>
cudaError_t make_states(const Problem<S>& p, bool gradient, StridedRows<const S> u, float* states,
                        cudaStream_t stream) {
  if (!p.layout.states) return cudaSuccess;
  const Arguments<S> a{p, gradient, u, states};
  const int blocks = chunks(p.shape.P) * chunks(p.shape.N);
  tile_states_kernel<<<dim3(p.layout.tiles, p.shape.H, 2 * blocks), kThreads, 0, stream>>>(a);
  if (const auto e = cudaGetLastError(); e != cudaSuccess) return e;
  const int walks = ceil_div(p.shape.P * p.shape.N, kThreads);
  walk_kernel<<<dim3(walks, p.shape.H, 2), kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

template cudaError_t make_states(const Problem<float>&, bool, StridedRows<const float>, float*,
                                 cudaStream_t);
template cudaError_t make_states(const Problem<BFloat16>&, bool, StridedRows<const BFloat16>,
                                 float*, cudaStream_t);

}  // namespace hydramix::cuda::plain
