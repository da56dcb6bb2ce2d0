// SPDX-License-Identifier: Apache-2.0
// States at the borders of tiles. A block walks through the tiles of a segment with the state of
// one part of a head in its registers, and stores the state that enters each tile, rounded. The
// same walk computes states from x and b, upwards for the forward direction and downwards for the
// backward direction, and gradients of states from dy and c, the other way.
//
// A very long sequence has several segments, each of which starts from a zero state. A second
// kernel then carries the final states of segments on, and a third adds them to the states of the
// tiles, unless the reader of the states does that itself.
//
// Floor: u is read once per direction, (P N) / (kTile P) of it written: 3 bytes per value of u,
// twice.
#include "kernels/cuda/scan_launch.cuh"

namespace hydramix::cuda {
namespace {

struct Arguments : TileArguments {
  StatePass pass;
  bool carries;
};

__device__ __forceinline__ int64_t index(const Parts& parts, int blocks, int d, int block,
                                         int part) {
  return (static_cast<int64_t>(d) * blocks + block) * parts.count + part;
}

// Tile i of a walk through a segment.
struct Walk {
  int first, count;
  bool up;
  __device__ int tile(int i) const { return up ? first + i : first + count - 1 - i; }
};
__device__ __forceinline__ Walk walk_of(const ScanLayout& layout, int segment, int d,
                                        bool gradient) {
  const int first = segment * layout.segment;
  int count = min(layout.segment, layout.tiles - first);
  // Empty tiles are the last ones.
  while (count > 0 && tile_span(layout, first + count - 1).rows == 0) --count;
  return {first, count, (d == 0) != gradient};
}

template <int P, int N>
__global__ void __launch_bounds__(2 * P) walk_kernel(const Arguments a) {
  constexpr int kThreads = 2 * P, kEach = kTile / kThreads;
  constexpr int kU = Tile<P>::bytes(kTile), kStage = kU + Tile<N>::bytes(kTile);
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ __align__(16) uint16_t weights[2][kTile];  // bfloat16
  // The block is one warpgroup, and the rows of v are as wgmma wants them.
  constexpr bool kTogether = kWarpgroups && P == 64 && (N == 64 || N == 32);

  const int part = blockIdx.x, d = blockIdx.z;
  if (!a.on[d]) return;
  const int head = a.parts.head(part), group = part / a.parts.per_group;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane >> 2, c = lane & 3;
  const Walk walk = walk_of(a.layout, blockIdx.y, d, a.pass.gradient);
  const float* sums = a.decays.sums(d, head);
  const float* entries = a.decays.entries(d, head);
  const int c_offset = !a.pass.gradient || a.shift == 0 ? 0 : d == 0 ? -1 : 1;
  const int way = walk.up ? 0 : 1;  // the direction of the walk

  const RowCopies<P, kThreads> u_copies(a.pass.u.data + part * P, a.pass.u.stride, threadIdx.x);
  const RowCopies<N, kThreads> v_copies(a.pass.v[d].data + group * N, a.pass.v[d].stride,
                                        threadIdx.x);
  const auto span = [&](int i) {
    return i < walk.count ? tile_span(a.layout, walk.tile(i)) : Span{0, 0};
  };
  // Bounds of the sequence at the border where the walk leaves tile i.
  const auto bounds = [&](int i, const Span& s) {
    return i < walk.count ? a.layout.bounds[far_token(way, s)] : make_int2(0, 0);
  };
  // Only the rows of the sequence that continues. Others must not affect the state, even if they
  // are not finite. The rows of c are of the same sequence.
  const auto start_copies = [&](int i, const Span& s, const Window& rows) {
    const uint32_t stage = shared_address(shared) + (i & 1) * kStage;
    u_copies.start(stage, s.begin * a.pass.u.stride, a.pass.u.stride, rows.low, rows.high,
                   threadIdx.x);
    v_copies.start(stage + kU, (s.begin + c_offset) * a.pass.v[d].stride, a.pass.v[d].stride,
                   rows.low, rows.high, threadIdx.x);
    commit_copies();
  };
  // The weight of a token is 2^reach, or 2^(far - entry): loads reach, or entry, of each token of
  // this thread, and returns far. Nothing is computed with them yet, which would wait for the
  // loads.
  const auto load_logs = [&](const Span& s, const Window& rows, float(&logs)[kEach]) {
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int r = threadIdx.x + e * kThreads;
      logs[e] = a.pass.gradient ? -kMaskedLog : kMaskedLog;
      if (rows.has(r))
        logs[e] = a.pass.gradient ? reach_of(sums, d, a.shift, s, r) : entry_of(entries, s, r);
    }
    return sums[far_token(d, s)];
  };
  const auto store_weights = [&](int i, const float(&logs)[kEach], float far) {
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      // A masked token has no weight, even if `far` is not finite.
      const float log = a.pass.gradient         ? logs[e]
                        : logs[e] == kMaskedLog ? -kMaskedLog
                                                : far - logs[e];
      weights[i & 1][threadIdx.x + e * kThreads] = pack(power_of_two(log), 0.0f) & 0xffffu;
    }
  };

  float state[N / 8][4] = {};  // rows 16 warp + g and + 8, columns 8 j + 2 c and + 1
  float total = 0;             // log of the decay so far
  float logs[kEach], decay = 0, next_decay = 0;
  bool passes = false;  // whether the state passes through the tile
  // Rows and weights are loaded one step ahead, the bounds of their sequences two steps ahead, and
  // the spans of tiles three.
  Span next = span(1), later = span(2);
  int2 next_bounds = bounds(1, next);
  if (walk.count > 0) {
    const Span first = span(0);
    const Crossing goes_on = crossing(way, first, bounds(0, first));
    start_copies(0, first, goes_on.rows);
    decay = load_logs(first, goes_on.rows, logs);
    passes = goes_on.passes;
    store_weights(0, logs, decay);
  }
  for (int i = 0; i < walk.count; ++i) {
    wait_copies<0>();
    publish_copies();
    __syncthreads();
    const int tile = walk.tile(i);
    const Crossing goes_on = crossing(way, next, next_bounds);
    if (i + 1 < walk.count) {
      start_copies(i + 1, next, goes_on.rows);
      next_decay = load_logs(next, goes_on.rows, logs);
    }
    next = later;
    next_bounds = bounds(i + 2, next);
    later = span(i + 3);
    BFloat16* out = a.pass.states + index(a.parts, a.layout.tiles, d, tile, part) * (P * N);
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
      reinterpret_cast<uint32_t*>(out + ((2 * warp) * (N / 8) + j) * 64)[lane] =
          pack(state[j][0], state[j][1]);
      reinterpret_cast<uint32_t*>(out + ((2 * warp + 1) * (N / 8) + j) * 64)[lane] =
          pack(state[j][2], state[j][3]);
    }
    if (a.carries && threadIdx.x == 0)
      a.pass.before[index(a.parts, a.layout.tiles, d, tile, part)] = total;
    total += passes ? decay : -kMaskedLog;

    // Where another sequence begins, the old state has no effect, even if it is not finite.
    const float factor = power_of_two(decay);
#pragma unroll
    for (int j = 0; j < N / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) state[j][e] = passes ? state[j][e] * factor : 0.0f;
    const uint32_t tile_u = shared_address(shared) + (i & 1) * kStage, tile_v = tile_u + kU;
    const uint32_t* weight = reinterpret_cast<const uint32_t*>(weights[i & 1]) + c;
#pragma unroll
    for (int k = 0; k < kTile / 16; ++k) {
      uint32_t m[4];
      Tile<P>::a_transposed(m, tile_u, 16 * k, 2 * warp, lane);
#pragma unroll
      for (int j = 0; j < 4; ++j) m[j] = multiply_pair(m[j], weight[8 * k + 4 * (j / 2)]);
      if constexpr (kTogether) {
        begin_products();
        add_product_with_rows<N>(state, m, tile_v, k, lane);
      } else {
#pragma unroll
        for (int j = 0; j < N / 16; ++j) {
          uint32_t b[4];
          Tile<N>::b(b, tile_v, 16 * k, 2 * j, lane);
          multiply(state[2 * j], m, b[0], b[1]);
          multiply(state[2 * j + 1], m, b[2], b[3]);
        }
      }
    }
    if (i + 1 < walk.count) store_weights(i + 1, logs, next_decay);
    if constexpr (kTogether) wait_for_products<0>();
    decay = next_decay;
    passes = goes_on.passes;
  }
  if (!a.carries) return;
  const int64_t end = index(a.parts, a.layout.segments(), d, blockIdx.y, part);
  if (threadIdx.x == 0) a.pass.totals[end] = total;
  float* ends = a.pass.ends + end * (P * N);
#pragma unroll
  for (int j = 0; j < N / 8; ++j) {
    *reinterpret_cast<float2*>(ends + ((2 * warp) * (N / 8) + j) * 64 + g * 8 + 2 * c) =
        make_float2(state[j][0], state[j][1]);
    *reinterpret_cast<float2*>(ends + ((2 * warp + 1) * (N / 8) + j) * 64 + g * 8 + 2 * c) =
        make_float2(state[j][2], state[j][3]);
  }
}

// Replaces the final state of a segment by the state that enters it.
__global__ void carry_kernel(const Arguments a) {
  const int d = blockIdx.z, part = blockIdx.y, segments = a.layout.segments();
  const int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (!a.on[d] || e >= a.parts.state()) return;
  const bool up = (d == 0) != a.pass.gradient;
  const auto place = [&](int i) {
    return index(a.parts, segments, d, up ? i : segments - 1 - i, part);
  };
  constexpr int kAhead = 8;  // loads of several segments at once: a store would hold them up
  float carried = 0;
  for (int first = 0; first < segments; first += kAhead) {
    float own[kAhead], total[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (first + i < segments) {
        own[i] = a.pass.ends[place(first + i) * a.parts.state() + e];
        total[i] = a.pass.totals[place(first + i)];
      }
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (first + i < segments) {
        a.pass.ends[place(first + i) * a.parts.state() + e] = carried;
        const float factor = power_of_two(total[i]);
        carried = factor == 0 ? own[i] : carried * factor + own[i];
      }
  }
}

__global__ void __launch_bounds__(128) add_kernel(const Arguments a) {
  const int tile = blockIdx.x, part = blockIdx.y, d = blockIdx.z;
  if (!a.on[d] || tile_span(a.layout, tile).rows == 0) return;
  const int64_t at = index(a.parts, a.layout.tiles, d, tile, part);
  const float factor = power_of_two(a.pass.before[at]);
  if (factor == 0) return;
  BFloat16* states = a.pass.states + at * a.parts.state();
  const float* carried =
      a.pass.ends +
      index(a.parts, a.layout.segments(), d, tile / a.layout.segment, part) * a.parts.state();
  for (int e = threadIdx.x * 8; e < a.parts.state(); e += 8 * blockDim.x) {
    float own[8], in0[4], in1[4];
    load<8>(states + e, own);
    load<4>(carried + e, in0);
    load<4>(carried + e + 4, in1);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      own[i] += factor * in0[i];
      own[i + 4] += factor * in1[i];
    }
    store<8>(states + e, own);
  }
}

// Bytes of two stages.
constexpr int stages_of(int P, int N) { return 2 * 2 * kTile * (P + N); }

}  // namespace

int states_shared(const Parts& parts) {
  return stages_of(parts.P, parts.N) + 4 * 2 * kTile;  // and weights of each stage
}

cudaError_t scan_states(const DeviceShape& shape, const ScanLayout& layout, const Decays& decays,
                        const StatePass& pass, cudaStream_t stream) {
  const Arguments a{{shape, layout, decays}, pass, layout.carries};
  const Parts& parts = a.parts;
  const auto error = with_sizes(parts, [&](auto p, auto n) {
    constexpr int P = decltype(p)::value, N = decltype(n)::value;
    constexpr int bytes = stages_of(P, N);
    if (const auto e = allow_shared(walk_kernel<P, N>, bytes); e != cudaSuccess) return e;
    walk_kernel<P, N><<<dim3(parts.count, layout.segments(), 2), 2 * P, bytes, stream>>>(a);
    return cudaGetLastError();
  });
  if (error != cudaSuccess || !layout.carries) return error;
  carry_kernel<<<dim3(ceil_div(parts.state(), 128), parts.count, 2), 128, 0, stream>>>(a);
  if (const auto e = cudaGetLastError(); e != cudaSuccess || pass.apart) return e;
  add_kernel<<<dim3(layout.tiles, parts.count, 2), 128, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace hydramix::cuda
