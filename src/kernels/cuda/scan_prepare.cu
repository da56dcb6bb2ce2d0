// SPDX-License-Identifier: Apache-2.0
// The passes before and after the matrix products. The first turns dt into decays and sums them
// tile by tile. The last ones turn gathered gradients of decays into those of dt, A, delta, b and
// c. A block has eight heads of a tile, 128 threads for each direction. Thread q of a direction has
// the token at position q in its order.
#include "kernels/cuda/scan_launch.cuh"
#include "kernels/cuda/softplus.cuh"

namespace hydramix::cuda {
namespace {

constexpr int kHeads = 8;

struct Arguments {
  DeviceShape shape;
  ScanLayout layout;
  ScanInputs<BFloat16> in;
  Decays decays;
};

// The step of a token, with the values that its gradient needs.
struct Step {
  float dt;
  float rate;   // A dt as a logarithm to base 2, not below kReset
  float slope;  // d dt / d raw; 0 where dt is limited
  float ratio;  // slope / dt, which has a limit where dt vanishes
  bool reset;   // rate is kReset and does not depend on dt
};
__device__ __forceinline__ Step step_of(const Arguments& a, int d, int h, int t) {
  const float raw =
      load_any(a.in.direction[d].dt.data, t * a.in.direction[d].dt.stride + h, a.in.dt_is_float) +
      a.in.dt_bias[h];
  const ClampedSoftplus<float> step(raw, a.shape.dt_low, a.shape.dt_high);
  const float rate = a.in.A[h] * step.dt * kLog2e;
  const bool reset = starts(a.layout, d, t) || !(rate > kReset);
  return {step.dt, reset ? kReset : rate, step.slope,
          step.clamped   ? 0.0f
          : raw < -15.0f ? 1.0f
                         : step.slope / step.dt,
          reset};
}

// The position of a thread.
struct Place {
  int tile, first_head, heads, d, q, t, warp, lane;
  Span s;
  bool here;  // whether there is a token

  __device__ Place(const Arguments& a)
      : tile(blockIdx.x),
        first_head(blockIdx.y * kHeads),
        heads(min(kHeads, a.shape.H - first_head)),
        d(threadIdx.x / kTile),
        q(threadIdx.x % kTile),
        warp(threadIdx.x / 32),
        lane(threadIdx.x % 32),
        s(tile_span(a.layout, tile)) {
    t = token(d, s, q);
    here = q < s.rows && a.shape.on[d];
  }
};

// values: inclusive sums over the 128 threads of a direction, in their order, each from thread
// `first` of the direction on, where its sequence begins. They contain nothing of another sequence,
// not even its rounding errors. Every thread calls it.
__device__ __forceinline__ void sum_up(float (&values)[kHeads], const Place& at, int first) {
  __shared__ float totals[kHeads][8];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float other = __shfl_up_sync(0xffffffffu, values[h], step);
      if (at.lane >= step && at.q - step >= first) values[h] += other;
    }
    if (at.lane == 31) totals[h][at.warp] = values[h];
  }
  __syncthreads();
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    float before = 0;
    for (int w = at.warp & ~3; w < at.warp; ++w)
      if ((w & 3) * 32 + 31 >= first) before += totals[h][w];
    values[h] += before;
  }
}

// The position, in the order of direction d, where the sequence of token t begins in the tile.
__device__ __forceinline__ int first_place(const Arguments& a, int d, const Span& s, int t) {
  const int2 bounds = a.layout.bounds[t];
  return d == 0 ? max(bounds.x - s.begin, 0) : max(s.begin + s.rows - bounds.y, 0);
}

__global__ void __launch_bounds__(256) prepare_kernel(const Arguments a) {
  const Place at(a);
  float rates[kHeads], logs[kHeads];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    rates[h] = logs[h] = 0;
    if (!at.here || h >= at.heads) continue;
    const Step step = step_of(a, at.d, at.first_head + h, at.t);
    rates[h] = step.rate;
    logs[h] = log2f(step.dt);
  }
  // A sequence begins at the lowest sum that the tokens before it can reach, so the decay from them
  // to this sequence underflows to zero.
  const int first = at.here ? first_place(a, at.d, at.s, at.t) : 0;
  sum_up(rates, at, first);
  if (!at.here) return;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (h >= at.heads) break;
    rates[h] += kReset * static_cast<float>(first);
    a.decays.sums(at.d, at.first_head + h)[at.t] = rates[h];
    a.decays.entries(at.d, at.first_head + h)[at.t] = rates[h] - logs[h];
  }
}

struct FinishArguments {
  Arguments a;
  Parts parts;
  Gathered gathered;
  float* sums;  // (5, tiles, H)
  ScanGradients<BFloat16> out;
};

// values (heads) += gathered values of a token, over the parts of each head. The loads of all
// heads are in flight at once.
__device__ __forceinline__ void gather(const FinishArguments& f, const Place& at, int kind, int t,
                                       float (&values)[kHeads]) {
  const int64_t n = f.a.layout.n;
  const int per_head = f.parts.per_head, first = at.first_head * per_head;
  for (int part = 0; part < per_head; ++part) {
    const float* from = place(f.gathered, f.parts, n, kind, first + part) + t;
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
      if (h < at.heads) values[h] += from[h * per_head * n];
  }
}

// The step of a token from its decays: dt = 2^(sum - entry), and d dt / d raw = 1 - exp(-dt).
__device__ __forceinline__ Step step_from_decays(float A, float log_dt, bool starts_here) {
  const float dt = power_of_two(log_dt), slope = -expm1f(-dt);
  const bool reset = starts_here || !(A * dt * kLog2e > kReset);
  return {dt, 0, slope, dt > 1e-30f ? slope / dt : 1.0f, reset};
}

// Sums over a tile, (kind, head): of dt_bias' gradient and of A's for each direction, of delta's.
__global__ void __launch_bounds__(256) finish_kernel(const FinishArguments f) {
  const Arguments& a = f.a;
  const Place at(a);
  const bool limited = a.shape.dt_low > 0 || a.shape.dt_high < INFINITY;
  // From the far border back: the gradient of a_q is that of all sums from q on. So thread q takes
  // the position at distance q from that border.
  const int q = at.s.rows - 1 - at.q, t = token(at.d, at.s, q);
  float later[kHeads] = {}, entry[kHeads] = {}, logs[kHeads] = {}, delta[kHeads] = {};
  const bool starts_here = at.here && starts(a.layout, at.d, t);
  if (at.here) {
    // sums[q] is used by the reach of the next position of its sequence (without a shift, by its
    // own), by its entry, and at the far border by everything that leaves the tile.
    const int reader = q + a.shape.shift;
    gather(f, at, 2 * at.d + 1, t, entry);
    if (a.layout.states) gather(f, at, 6 + 2 * at.d, t, entry);
    if (reader < at.s.rows &&
        (a.shape.shift == 0 || !starts(a.layout, at.d, token(at.d, at.s, reader)))) {
      gather(f, at, 2 * at.d, token(at.d, at.s, reader), later);
      if (a.layout.states) gather(f, at, 5 + 2 * at.d, token(at.d, at.s, reader), later);
    }
    const float *decay_sums = a.decays.sums(at.d, at.first_head) + t,
                *entries = a.decays.entries(at.d, at.first_head) + t;
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
      if (h < at.heads) logs[h] = decay_sums[h * a.layout.n] - entries[h * a.layout.n];
    if (at.q == 0 && a.layout.states)
      for (int h = 0; h < at.heads; ++h)
        for (int part = 0; part < f.parts.per_head; ++part) {
          const float dot =
              f.gathered
                  .dots[(static_cast<int64_t>(at.d) * a.layout.tiles + at.tile) * f.parts.count +
                        (at.first_head + h) * f.parts.per_head + part];
#pragma unroll
          for (int i = 0; i < kHeads; ++i) later[i] += i == h ? dot : 0.0f;
        }
  }
  if (at.d == 0 && at.q < at.s.rows) gather(f, at, 4, at.s.begin + at.q, delta);
#pragma unroll
  for (int h = 0; h < kHeads; ++h) later[h] -= entry[h];
  sum_up(later, at, at.here ? first_place(a, 1 - at.d, at.s, t) : 0);

  __shared__ float sums[3][kHeads][8];  // of dt_bias, A and delta, a warp each
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const int head = at.first_head + h;
    float bias = 0, A = 0;
    if (at.here && h < at.heads) {
      const float rate = a.in.A[head];
      const Step step =
          limited ? step_of(a, at.d, head, t) : step_from_decays(rate, logs[h], starts_here);
      const float da = step.reset ? 0.0f : later[h];
      A = da * step.dt;
      bias = entry[h] * step.ratio + da * rate * step.slope;
      if (f.out.direction[at.d].dt.data != nullptr)
        store_any(f.out.direction[at.d].dt.data, t * f.out.direction[at.d].dt.stride + head,
                  a.in.dt_is_float, bias);
    }
    if (at.d == 0 && at.q < at.s.rows && h < at.heads && f.out.delta.data != nullptr)
      store_any(f.out.delta.data, (at.s.begin + at.q) * f.out.delta.stride + head,
                a.in.delta_is_float, delta[h]);
    bias = warp_sum(bias);
    A = warp_sum(A);
    const float all = warp_sum(delta[h]);
    if (at.lane == 0)
      sums[0][h][at.warp] = bias, sums[1][h][at.warp] = A, sums[2][h][at.warp] = all;
  }
  __syncthreads();
  // Kinds: dt_bias forward and backward, A forward and backward, delta.
  if (threadIdx.x >= 5 * kHeads) return;
  const int kind = threadIdx.x / kHeads, h = threadIdx.x % kHeads;
  if (h >= at.heads) return;
  float sum = 0;
  for (int w = 0; w < 4; ++w) sum += sums[kind / 2][h][(kind & 1) * 4 + w];
  f.sums[(static_cast<int64_t>(kind) * a.layout.tiles + at.tile) * a.shape.H + at.first_head + h] =
      sum;
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

// Gradients of b and c at four columns of a token, over all runs; that of c from the row that used
// it.
__global__ void __launch_bounds__(256) shares_kernel(const FinishArguments f) {
  const Arguments& a = f.a;
  const int N = a.shape.N, G = a.shape.G, width = G * 4 * N;
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) * 4;
  if (i >= a.layout.n * width) return;
  const int t = static_cast<int>(i / width), within = static_cast<int>(i % width);
  const int group = within / (4 * N), kind = within / N % 4, column = within % N;
  const int d = kind / 2;
  const auto& out = f.out.direction[d];
  BFloat16* to = kind % 2 == 0 ? out.b.data : out.c.data;
  if (!a.shape.on[d] || to == nullptr) return;
  to += t * (kind % 2 == 0 ? out.b.stride : out.c.stride) + group * N + column;

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

cudaError_t scan_prepare(const DeviceShape& shape, const ScanLayout& layout,
                         const ScanInputs<BFloat16>& in, const Decays& decays,
                         cudaStream_t stream) {
  prepare_kernel<<<dim3(layout.tiles, ceil_div(shape.H, kHeads)), 256, 0, stream>>>(
      {shape, layout, in, decays});
  return cudaGetLastError();
}

cudaError_t scan_shares(const DeviceShape& shape, const ScanLayout& layout,
                        const Gathered& gathered, const ScanGradients<BFloat16>& out,
                        cudaStream_t stream) {
  const FinishArguments f{{shape, layout, {}, {}}, Parts(shape), gathered, nullptr, out};
  const int64_t quads = layout.n * shape.G * shape.N;  // 4 kinds, 4 columns a thread
  shares_kernel<<<static_cast<unsigned>(ceil_div<int64_t>(quads, 256)), 256, 0, stream>>>(f);
  return cudaGetLastError();
}

cudaError_t scan_finish(const DeviceShape& shape, const ScanLayout& layout,
                        const ScanInputs<BFloat16>& in, const Decays& decays,
                        const Gathered& gathered, float* sums, const ScanGradients<BFloat16>& out,
                        cudaStream_t stream) {
  const FinishArguments f{{shape, layout, in, decays}, Parts(shape), gathered, sums, out};
  finish_kernel<<<dim3(layout.tiles, ceil_div(shape.H, kHeads)), 256, 0, stream>>>(f);
  if (const auto e = cudaGetLastError(); e != cudaSuccess) return e;
  total_kernel<<<dim3(shape.H, 3), 256, 0, stream>>>(f);
  return cudaGetLastError();
}

}  // namespace hydramix::cuda
