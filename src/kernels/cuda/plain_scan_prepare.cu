// SPDX-License-Identifier: Apache-2.0
// The passes before and after the plain scan's products, in float64. The first turns dt into decays
// and sums them tile by tile. The last one turns gathered gradients of decays into those of dt, A
// and delta. A warp takes one direction of one head of a tile, four consecutive tokens per lane, in
// the order of the direction.
#include "kernels/cuda/plain_scan_parts.cuh"
#include "kernels/cuda/softplus.cuh"

namespace hydramix::cuda::plain {
namespace {

constexpr int kWarps = kThreads / 32;
constexpr int kLaneTokens = kTile / 32;

// The step of a token, with the values that its gradient needs.
struct Step {
  double dt;
  double rate;   // A dt as a logarithm to base 2, not below kForget
  double slope;  // d dt / d raw; 0 where dt is limited
  bool forgets;  // rate is kForget and does not depend on dt
};
template <typename S>
__device__ __forceinline__ Step step_of(const Problem<S>& p, int d, int h, int t) {
  const auto& in = p.in.direction[d];
  const double raw =
      static_cast<double>(load_any(in.dt.data, t * in.dt.stride + h, p.in.dt_is_float)) +
      static_cast<double>(p.in.dt_bias[h]);
  const ClampedSoftplus<double> step(raw, p.shape.dt_low, p.shape.dt_high);
  const double rate = p.in.A[h] * step.dt * kLog2e;
  const bool forgets = starts(p.layout, d, t) || !(rate > kForget);
  return {step.dt, forgets ? kForget : rate, step.slope, forgets};
}

// The position, in the order of direction d, where the sequence of token t begins in the tile.
__device__ __forceinline__ int first_place(const ScanLayout& layout, int d, const Span& s, int t) {
  const int2 bounds = layout.bounds[t];
  return d == 0 ? max(bounds.x - s.begin, 0) : max(s.begin + s.rows - bounds.y, 0);
}

// values: inclusive sums over the tile, in the order of positions, each from position `first` on,
// where its sequence begins. They contain nothing of another sequence, not even its rounding
// errors.
__device__ __forceinline__ void sum_up(double (&values)[kLaneTokens],
                                       const int (&first)[kLaneTokens], int lane) {
  const int own = lane * kLaneTokens;  // the first position of the lane
#pragma unroll
  for (int i = 1; i < kLaneTokens; ++i)
    if (first[i] < own + i) values[i] += values[i - 1];
  double before = values[kLaneTokens - 1];
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const double other = __shfl_up_sync(0xffffffffu, before, step);
    if (lane >= step && first[kLaneTokens - 1] < own - (step - 1) * kLaneTokens) before += other;
  }
  before = __shfl_up_sync(0xffffffffu, before, 1);
#pragma unroll
  for (int i = 0; i < kLaneTokens; ++i)
    if (first[i] < own) values[i] += before;
}

__device__ __forceinline__ double warp_total(double v) {
  v = half_warp_sum(v);
  return v + __shfl_xor_sync(0xffffffffu, v, 16);
}

template <typename S>
__global__ void __launch_bounds__(kThreads) prepare_kernel(const Problem<S> p) {
  const Span s = tile_span(p.layout, blockIdx.x);
  const int lane = threadIdx.x % 32, task = blockIdx.y * kWarps + threadIdx.x / 32;
  const int d = task / p.shape.H, h = task % p.shape.H;
  if (d > 1 || !p.shape.on[d]) return;
  double rates[kLaneTokens], *sums = p.steps.sums_of(d, h);
  float* dts = p.steps.dts_of(d, h);
  int first[kLaneTokens];
#pragma unroll
  for (int i = 0; i < kLaneTokens; ++i) {
    const int q = lane * kLaneTokens + i;
    rates[i] = first[i] = 0;
    if (q >= s.rows) continue;
    first[i] = first_place(p.layout, d, s, token(d, s, q));
    const Step step = step_of(p, d, h, token(d, s, q));
    rates[i] = step.rate;
    dts[token(d, s, q)] = static_cast<float>(step.dt);
  }
  sum_up(rates, first, lane);
#pragma unroll
  for (int i = 0; i < kLaneTokens; ++i) {
    const int q = lane * kLaneTokens + i;
    if (q >= s.rows) continue;
    // A sequence begins at the lowest sum that the tokens before it can reach, so the decay from
    // them to this sequence is zero.
    rates[i] += kForget * first[i];
    sums[token(d, s, q)] = rates[i];
    if (q == s.rows - 1) p.steps.tile_decay(d, blockIdx.x, h) = exp2(rates[i]);
  }
  // An empty tile changes no state.
  if (s.rows == 0 && lane == 0) p.steps.tile_decay(d, blockIdx.x, h) = 1;
}

template <typename S>
struct Finish {
  Problem<S> p;
  Gathered gathered;
  double* totals;  // (3, tiles, H)
  ScanGradients<S> out;
  int chunks;  // of N
};

// The sum of what the two blocks of a tile gathered at row r. The block off the diagonal
// contributes to one half of the rows, if there are two halves.
__device__ __forceinline__ double gathered_at(const double* blocks, const Steps& steps, int d,
                                              int h, const Span& s, int r, int half) {
  const auto at = [&](int block) {
    return blocks[((static_cast<int64_t>(d) * kBlocks + block) * steps.H + h) * steps.n + s.begin +
                  r];
  };
  return at(0) + (r / kBlock == half && s.rows > kBlock ? at(1) : 0.0);
}

// The part that came through states at token t, summed over the chunks of N.
template <typename S>
__device__ __forceinline__ double dot_at(const Finish<S>& f, int kind, int h, int t) {
  double sum = 0;
  for (int chunk = 0; chunk < f.chunks; ++chunk)
    sum += f.gathered.dots[((static_cast<int64_t>(kind) * f.chunks + chunk) * f.p.steps.H + h) *
                               f.p.steps.n +
                           t];
  return sum;
}

// Sums of a tile for one head: of dt_bias' gradient, A's and delta's. Kinds are written one by one.
template <typename S>
__global__ void __launch_bounds__(kThreads) finish_kernel(const Finish<S> f) {
  const Problem<S>& p = f.p;
  const int tile = blockIdx.x, lane = threadIdx.x % 32;
  const int h = blockIdx.y * kWarps + threadIdx.x / 32;
  if (h >= p.shape.H) return;
  const Span s = tile_span(p.layout, tile);
  const int g = h / (p.shape.H / p.shape.G);
  const float* diagonal = f.gathered.diagonal + h * p.steps.n;
  double bias_sum = 0, A_sum = 0, delta_sum = 0;
#pragma unroll
  for (int i = 0; i < kLaneTokens; ++i) {
    const int t = s.begin + lane * kLaneTokens + i;
    if (t >= s.begin + s.rows) continue;
    delta_sum += diagonal[t];
    if (f.out.delta.data != nullptr)
      store_any(f.out.delta.data, t * f.out.delta.stride + h, p.in.delta_is_float, diagonal[t]);
  }
  for (int d = 0; d < 2; ++d) {
    if (!p.shape.on[d]) continue;
    // The rows of the sequence that enters across a border, and of the one that leaves.
    Window entering{0, 0}, leaving_rows{0, 0};
    if (p.layout.states && s.rows > 0) {
      entering = crossing(p.layout, 1 - d, s).rows;
      leaving_rows = crossing(p.layout, d, s).rows;
    }
    const float* dts = p.steps.dts_of(d, h);
    // From the far border back: the gradient of a_q is that of all sums from q on. sum_q is used by
    // the reach of the next position (without a shift, by its own), by its entry, and at the far
    // border by everything that leaves the tile.
    double later[kLaneTokens], entry[kLaneTokens], leaving = 0;
    int first[kLaneTokens];
#pragma unroll
    for (int i = 0; i < kLaneTokens; ++i) {
      const int q = s.rows - 1 - (lane * kLaneTokens + i), reader = q + p.shape.shift;
      later[i] = entry[i] = first[i] = 0;
      if (q < 0) continue;
      const int t = token(d, s, q);
      first[i] = first_place(p.layout, 1 - d, s, t);
      entry[i] = gathered_at(f.gathered.entries, p.steps, d, h, s, t - s.begin, d);
      const bool goes = leaving_rows.has(t - s.begin);
      const double out = goes ? dot_at(f, 2 * d, h, t) : 0.0;
      leaving += goes ? dts[t] * out : 0.0;
      later[i] = -dts[t] * (entry[i] + out);
      entry[i] += out;
      const int from = token(d, s, reader);
      if (reader < s.rows && (p.shape.shift == 0 || !starts(p.layout, d, from))) {
        later[i] += gathered_at(f.gathered.reaches, p.steps, d, h, s, from - s.begin, 1 - d);
        if (entering.has(from - s.begin)) later[i] += dot_at(f, 2 * d + 1, h, from);
        // Terms without a decay: they depend on dt only.
        entry[i] += p.shape.shift == 1
                        ? f.gathered.neighbours[p.steps.at(d, h) + t]
                        : static_cast<double>(diagonal[t]) *
                              p.products.diagonal[(d * p.shape.G + g) * p.steps.n + t];
      }
    }
    leaving = warp_total(leaving);
    if (p.layout.states)
      leaving +=
          f.gathered.tile_decays[(static_cast<int64_t>(d) * p.layout.tiles + tile) * p.shape.H + h];
    if (lane == 0) later[0] += leaving;
    sum_up(later, first, lane);
#pragma unroll
    for (int i = 0; i < kLaneTokens; ++i) {
      const int q = s.rows - 1 - (lane * kLaneTokens + i);
      if (q < 0) continue;
      const int t = token(d, s, q);
      const Step step = step_of(p, d, h, t);
      const double da = step.forgets ? 0.0 : later[i];
      const double draw = (entry[i] + da * p.in.A[h]) * step.slope;
      A_sum += da * step.dt;
      bias_sum += draw;
      if (f.out.direction[d].dt.data != nullptr)
        store_any(f.out.direction[d].dt.data, t * f.out.direction[d].dt.stride + h,
                  p.in.dt_is_float, static_cast<float>(draw));
    }
  }
  bias_sum = warp_total(bias_sum);
  A_sum = warp_total(A_sum);
  delta_sum = warp_total(delta_sum);
  if (lane < 3)
    f.totals[(static_cast<int64_t>(lane) * p.layout.tiles + tile) * p.shape.H + h] =
        lane == 0   ? bias_sum
        : lane == 1 ? A_sum
                    : delta_sum;
}

// The sums of all tiles.
template <typename S>
__global__ void __launch_bounds__(kThreads) total_kernel(const Finish<S> f) {
  const int h = blockIdx.x, kind = blockIdx.y, tiles = f.p.layout.tiles, H = f.p.shape.H;
  float* to = kind == 0 ? f.out.dt_bias : kind == 1 ? f.out.A : f.out.diagonal;
  if (to == nullptr) return;
  double sum = 0;
  for (int tile = threadIdx.x; tile < tiles; tile += kThreads)
    sum += f.totals[(static_cast<int64_t>(kind) * tiles + tile) * H + h];
  __shared__ double all[kThreads];
  all[threadIdx.x] = sum;
  for (int step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) all[threadIdx.x] += all[threadIdx.x + step];
  }
  if (threadIdx.x == 0) to[h] = static_cast<float>(all[0]);
}

}  // namespace

template <typename S>
cudaError_t prepare(const Problem<S>& p, cudaStream_t stream) {
  prepare_kernel<<<dim3(p.layout.tiles, ceil_div(2 * p.shape.H, kWarps)), kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

template <typename S>
cudaError_t finish(const Problem<S>& p, const Gathered& gathered, double* totals,
                   const ScanGradients<S>& out, cudaStream_t stream) {
  const Finish<S> f{p, gathered, totals, out, chunks(p.shape.N)};
  finish_kernel<<<dim3(p.layout.tiles, ceil_div(p.shape.H, kWarps)), kThreads, 0, stream>>>(f);
  if (const auto e = cudaGetLastError(); e != cudaSuccess) return e;
  total_kernel<<<dim3(p.shape.H, 3), kThreads, 0, stream>>>(f);
  return cudaGetLastError();
}

#define HYDRAMIX_PLAIN_SCAN(S)                                             \
  template cudaError_t prepare(const Problem<S>&, cudaStream_t);           \
  template cudaError_t finish(const Problem<S>&, const Gathered&, double*, \
                              const ScanGradients<S>&, cudaStream_t);
HYDRAMIX_PLAIN_SCAN(float)
HYDRAMIX_PLAIN_SCAN(BFloat16)
#undef HYDRAMIX_PLAIN_SCAN

}  // namespace hydramix::cuda::plain
