// SPDX-License-Identifier: Apache-2.0
// Before and behind the matrix products: dt becomes decays, summed up tile by tile, and what was
// gathered for decays becomes gradients of dt, A, delta, b and c. A warp takes one direction of one
// head of a tile, four consecutive tokens a lane, in the order of the direction.
#include <math.h>

#include "kernels/cuda/scan_parts.cuh"

namespace hydramix::cuda {
namespace {

constexpr int kLaneTokens = kTile / 32;

struct Arguments {
  ScanShape shape;
  ScanLayout layout;
  ScanInputs in;
  Decays decays;
};

__device__ __forceinline__ float softplus(float v) { return v > 20.0f ? v : log1pf(expf(v)); }

// One token's step, and what its gradient needs.
struct Step {
  float dt;
  float rate;   // A dt as a logarithm to base 2, not below kReset
  float slope;  // d dt / d raw; 0 where dt is limited
  float ratio;  // slope / dt, which has a limit where dt vanishes
  bool reset;   // rate is kReset, whatever dt
};
__device__ __forceinline__ Step step_of(const Arguments& a, int d, int h, int t) {
  const float raw =
      load_any(a.in.direction[d].dt, t * a.in.direction[d].dt_row + h, a.shape.dt_is_float) +
      a.in.dt_bias[h];
  const float free = softplus(raw), dt = fminf(fmaxf(free, a.shape.dt_low), a.shape.dt_high);
  const float rate = a.in.A[h] * dt * kLog2e;
  const float slope = dt == free ? 1.0f / (1.0f + expf(-raw)) : 0.0f;
  const bool reset = starts(a.layout, d, t) || !(rate > kReset);
  return {dt, reset ? kReset : rate, slope,
          dt != free     ? 0.0f
          : raw < -15.0f ? 1.0f
                         : slope / dt,
          reset};
}

// values: inclusive sums over the tile, in the order of places.
__device__ __forceinline__ void sum_up(float (&values)[kLaneTokens], int lane) {
#pragma unroll
  for (int i = 1; i < kLaneTokens; ++i) values[i] += values[i - 1];
  float before = values[kLaneTokens - 1];
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float other = __shfl_up_sync(0xffffffffu, before, step);
    if (lane >= step) before += other;
  }
  before = __shfl_up_sync(0xffffffffu, before, 1);
  if (lane == 0) before = 0;
#pragma unroll
  for (int i = 0; i < kLaneTokens; ++i) values[i] += before;
}

__global__ void __launch_bounds__(256) prepare_kernel(const Arguments a) {
  const Span s = tile_span(a.layout, blockIdx.x);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int task = blockIdx.y * 8 + warp; task < 2 * a.shape.H; task += 8 * gridDim.y) {
    const int d = task / a.shape.H, h = task % a.shape.H;
    if (!a.shape.on[d]) continue;
    float rates[kLaneTokens], logs[kLaneTokens];
#pragma unroll
    for (int i = 0; i < kLaneTokens; ++i) {
      const int q = lane * kLaneTokens + i;
      rates[i] = logs[i] = 0;
      if (q >= s.rows) continue;
      const Step step = step_of(a, d, h, token(d, s, q));
      rates[i] = step.rate;
      logs[i] = log2f(step.dt);
    }
    sum_up(rates, lane);
    float *sums = a.decays.sums(d, h), *entries = a.decays.entries(d, h);
#pragma unroll
    for (int i = 0; i < kLaneTokens; ++i) {
      const int q = lane * kLaneTokens + i;
      if (q >= s.rows) continue;
      sums[token(d, s, q)] = rates[i];
      entries[token(d, s, q)] = rates[i] - logs[i];
    }
  }
}

struct FinishArguments {
  Arguments a;
  Parts parts;
  Gathered gathered;
  float* sums;  // (5, tiles, H)
  ScanGradients out;
};

// What is gathered at a token, over the parts of its head.
__device__ __forceinline__ float gathered_at(const FinishArguments& f, int kind, int h, int t) {
  float sum = 0;
  for (int part = h * f.parts.per_head; part < (h + 1) * f.parts.per_head; ++part)
    sum += place(f.gathered, f.parts, f.a.layout.n, kind, part)[t];
  return sum;
}

// The step of a token from its decays: dt = 2^(sum - entry), and d dt / d raw = 1 - exp(-dt).
__device__ __forceinline__ Step step_from_decays(const Arguments& a, int d, int h, int t) {
  const float dt = power_of_two(a.decays.sums(d, h)[t] - a.decays.entries(d, h)[t]);
  const bool reset = starts(a.layout, d, t) || !(a.in.A[h] * dt * kLog2e > kReset);
  const float slope = -expm1f(-dt);
  return {dt, 0, slope, dt > 1e-30f ? slope / dt : 1.0f, reset};
}

// A warp takes one head of a tile and a kind: what the forward direction, the backward direction,
// or delta has to say. Their sums over the tile: of dt_bias and A for each direction, of delta.
__global__ void __launch_bounds__(256) finish_kernel(const FinishArguments f) {
  const Arguments& a = f.a;
  const int tile = blockIdx.x, H = a.shape.H;
  const Span s = tile_span(a.layout, tile);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int task = blockIdx.y * 8 + warp, h = task % H, d = task / H;
  if (task >= 3 * H) return;
  const auto leave = [&](int kind, float sum) {
    sum = warp_sum(sum);
    if (lane == 0) f.sums[(static_cast<int64_t>(kind) * a.layout.tiles + tile) * H + h] = sum;
  };
  if (d == 2) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kLaneTokens; ++i) {
      const int r = lane + 32 * i;
      if (r >= s.rows) continue;
      const float v = gathered_at(f, 4, h, s.begin + r);
      sum += v;
      if (f.out.delta != nullptr)
        store_any(f.out.delta, (s.begin + r) * f.out.delta_row + h, a.shape.delta_is_float, v);
    }
    leave(4, sum);
    return;
  }
  float bias_sum = 0, A_sum = 0;
  if (a.shape.on[d]) {
    // sums[q] is wanted by the reach of the place behind it (or its own, without a shift), by its
    // entry, and at the far border by everything that leaves the tile.
    float whole = 0;
    if (a.layout.states && s.rows > 0)
      for (int part = h * f.parts.per_head; part < (h + 1) * f.parts.per_head; ++part)
        whole +=
            f.gathered
                .dots[(static_cast<int64_t>(d) * a.layout.tiles + tile) * f.parts.count + part];
    // From the far border back: the gradient of a_q is that of all sums from q on.
    float later[kLaneTokens], entry[kLaneTokens];
#pragma unroll
    for (int i = 0; i < kLaneTokens; ++i) {
      const int back = lane * kLaneTokens + i, q = s.rows - 1 - back;
      later[i] = entry[i] = 0;
      if (q < 0) continue;
      entry[i] = gathered_at(f, 2 * d + 1, h, token(d, s, q));
      const int looking = q + a.shape.shift;
      later[i] = (looking < s.rows ? gathered_at(f, 2 * d, h, token(d, s, looking)) : 0.0f) -
                 entry[i] + (back == 0 ? whole : 0.0f);
    }
    sum_up(later, lane);
    const bool limited = a.shape.dt_low > 0 || a.shape.dt_high < kNever;
#pragma unroll
    for (int i = 0; i < kLaneTokens; ++i) {
      const int q = s.rows - 1 - (lane * kLaneTokens + i);
      if (q < 0) continue;
      const int t = token(d, s, q);
      const Step step = limited ? step_of(a, d, h, t) : step_from_decays(a, d, h, t);
      const float da = step.reset ? 0.0f : later[i];
      const float draw = entry[i] * step.ratio + da * a.in.A[h] * step.slope;
      A_sum += da * step.dt;
      bias_sum += draw;
      if (f.out.direction[d].dt != nullptr)
        store_any(f.out.direction[d].dt, t * f.out.direction[d].dt_row + h, a.shape.dt_is_float,
                  draw);
    }
  }
  leave(d, bias_sum);
  leave(2 + d, A_sum);
}

// The sums of all tiles, and of both directions.
__global__ void __launch_bounds__(256) total_kernel(const FinishArguments f) {
  const int h = blockIdx.x, what = blockIdx.y;
  float* to = what == 0 ? f.out.dt_bias : what == 1 ? f.out.A : f.out.diagonal;
  if (to == nullptr) return;
  double sum = 0;
  for (int kind = 2 * what; kind < (what == 2 ? 5 : 2 * what + 2); ++kind) {
    const float* from = f.sums + static_cast<int64_t>(kind) * f.a.layout.tiles * f.a.shape.H + h;
    for (int tile = threadIdx.x; tile < f.a.layout.tiles; tile += 256)
      sum += from[static_cast<int64_t>(tile) * f.a.shape.H];
  }
  __shared__ double all[256];
  all[threadIdx.x] = sum;
  for (int step = 128; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) all[threadIdx.x] += all[threadIdx.x + step];
  }
  if (threadIdx.x == 0) to[h] = static_cast<float>(all[0]);
}

// Gradients of b and c at four columns of a token, over all runs; that of c where it was looked at.
__global__ void __launch_bounds__(256) shares_kernel(const FinishArguments f) {
  const Arguments& a = f.a;
  const int N = a.shape.N, G = a.shape.G, width = G * 4 * N;
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) * 4;
  if (i >= a.layout.n * width) return;
  const int t = static_cast<int>(i / width), within = static_cast<int>(i % width);
  const int group = within / (4 * N), kind = within / N % 4, column = within % N;
  const int d = kind / 2;
  const auto& out = f.out.direction[d];
  BFloat16* to = kind % 2 == 0 ? out.b : out.c;
  if (!a.shape.on[d] || to == nullptr) return;
  to += t * (kind % 2 == 0 ? out.b_row : out.c_row) + group * N + column;

  int from = t;
  bool any = true;
  if (kind % 2 == 1 && a.shape.shift == 1) {
    from = d == 0 ? t + 1 : t - 1;
    any = from >= 0 && from < a.layout.n && !starts(a.layout, d, from);
  }
  float sum[4] = {};
  if (any)
    for (int slot = 0; slot < f.gathered.runs + (a.layout.states ? 1 : 0); ++slot) {
      float part[4];
      load<4>(f.gathered.shares + (slot * a.layout.n + from) * width + within, part);
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[e] += part[e];
    }
  store<4>(to, sum);
}

}  // namespace

cudaError_t scan_prepare(const ScanShape& shape, const ScanLayout& layout, const ScanInputs& in,
                         const Decays& decays, cudaStream_t stream) {
  prepare_kernel<<<dim3(layout.tiles, ceil_div(2 * shape.H, 8)), 256, 0, stream>>>(
      {shape, layout, in, decays});
  return cudaGetLastError();
}

cudaError_t scan_finish(const ScanShape& shape, const ScanLayout& layout, const ScanInputs& in,
                        const Decays& decays, const Gathered& gathered, float* sums,
                        const ScanGradients& out, cudaStream_t stream) {
  const FinishArguments f{{shape, layout, in, decays}, Parts(shape), gathered, sums, out};
  const int64_t quads = layout.n * shape.G * shape.N;  // 4 kinds, 4 columns a thread
  shares_kernel<<<static_cast<unsigned>(ceil_div<int64_t>(quads, 256)), 256, 0, stream>>>(f);
  finish_kernel<<<dim3(layout.tiles, ceil_div(3 * shape.H, 8)), 256, 0, stream>>>(f);
  total_kernel<<<dim3(shape.H, 3), 256, 0, stream>>>(f);
  return cudaGetLastError();
}

}  // namespace hydramix::cuda
