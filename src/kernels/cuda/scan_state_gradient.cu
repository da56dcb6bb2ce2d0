// SPDX-License-Identifier: Apache-2.0
// Gradients through states. For one direction and tile, with the state that enters and the gradient
// of the one that leaves, both P x N, a head adds
//
//   dc_i += 2^reach_i state^T dy_i,              dreach_i += c_i . (that)
//   db_j += 2^(sum_far - entry_j) dstate^T x_j,  dentry_j += b_j . (that), and so does sum_far
//   dsum_far += 2^sum_far <dstate, state>
//
// A block owns a tile and a group, and sums the gradients of b and c over the heads in registers.
//
// Floor: x and dy, and two states of each direction, are read once.
#include "kernels/cuda/scan_launch.cuh"

namespace hydramix::cuda {
namespace {

struct Arguments : TileArguments {
  ScanInputs<BFloat16> in;
  StridedRows<const BFloat16> dy;
  const BFloat16 *states, *dstates;
  Gathered gathered;
};

template <int P, int N>
struct Plan {
  // Both directions together read x and dy once. With large states there are not enough registers
  // for that.
  static constexpr int kDirections = N <= 64 ? 2 : 1;
  static constexpr int kThreads = 256 * kDirections;
  static constexpr int kStages = N <= 64 ? 2 : 1;
  static constexpr int kRows = Tile<N>::bytes(kTile);
  static constexpr int kX = Tile<P>::bytes(kTile);
  static constexpr int kState = P * N * 2;
  static constexpr int kStage = 2 * kX + 2 * kDirections * kState;
  static constexpr int kBytes = 2 * kDirections * kRows + kStages * kStage;
  // reach and entry of each stage, sums of warps.
  static constexpr int kFixed = 4 * (kStages * 4 * kTile + kThreads / 32);
};

// sum (16 x N) = rows (16 x P, of a tile) state (P x N).
template <int P, int N>
__device__ __forceinline__ void through_state(float (&sum)[N / 8][4], uint32_t tile, int first_row,
                                              uint32_t state, int lane) {
  if constexpr (kWarpgroups && (N == 32 || N == 64)) {
    rows_times_state<P, N>(sum, tile + Tile<P>::bytes(first_row / 64 * 64), state);
  } else {
#pragma unroll
    for (int j = 0; j < N / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[j][e] = 0;
#pragma unroll
    for (int k = 0; k < P / 16; ++k) {
      uint32_t m[4];
      Tile<P>::a(m, tile, first_row, 2 * k, lane);
#pragma unroll
      for (int j = 0; j < N / 16; ++j) {
        // Blocks (2 k, 2 j), (2 k + 1, 2 j), (2 k, 2 j + 1), (2 k + 1, 2 j + 1), each transposed.
        const int block = (2 * k + ((lane >> 3) & 1)) * (N / 8) + 2 * j + (lane >> 4);
        uint32_t b[4];
        load_transposed(b, state + (block * 8 + (lane & 7)) * 16);
        multiply(sum[2 * j], m, b[0], b[1]);
        multiply(sum[2 * j + 1], m, b[2], b[3]);
      }
    }
  }
}

// total += scale * sum, row by row. Returns scale * (sum . with) for either row; `with` are rows of
// a tile. All four lanes of equal g have the result. A row that is not `in` belongs to another
// sequence than the state, and does not change, even if the state is not finite.
template <int N>
__device__ __forceinline__ float2 gather_rows(float (&total)[N / 8][4],
                                              const float (&sum)[N / 8][4], const float (&scale)[2],
                                              const bool (&in)[2], uint32_t with, int row0, int c) {
  float dots[2] = {};
  const uint32_t mine = with + Tile<N>::pair(row0, 2 * c);
#pragma unroll
  for (int r = 0; r < 2; ++r)
    if (in[r])
#pragma unroll
      for (int j = 0; j < N / 8; ++j) {
        total[j][2 * r] += scale[r] * sum[j][2 * r];
        total[j][2 * r + 1] += scale[r] * sum[j][2 * r + 1];
        // The permutation of a row's pieces is an exclusive or, and rows 8 apart have the same.
        const uint32_t w = load_shared_word((mine ^ (j * 16)) + Tile<N>::bytes(8 * r));
        dots[r] += sum[j][2 * r] * low(w) + sum[j][2 * r + 1] * high(w);
      }
#pragma unroll
  for (int step = 1; step < 4; step *= 2) {
    dots[0] += __shfl_xor_sync(0xffffffffu, dots[0], step);
    dots[1] += __shfl_xor_sync(0xffffffffu, dots[1], step);
  }
  return make_float2(in[0] ? scale[0] * dots[0] : 0.0f, in[1] ? scale[1] * dots[1] : 0.0f);
}

template <int P, int N>
__global__ void __launch_bounds__(Plan<P, N>::kThreads, 1)
    state_gradient_kernel(const Arguments a) {
  using Plan = Plan<P, N>;
  constexpr int kThreads = Plan::kThreads;
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ float warp_sums[kThreads / 32];
  __shared__ __align__(16) float reach[Plan::kStages][2][kTile], entry[Plan::kStages][2][kTile];
  const int tile = blockIdx.x, group = blockIdx.z;
  // Eight warps per direction.
  const int warp = threadIdx.x / 32 % 8, lane = threadIdx.x % 32, g = lane >> 2, c = lane & 3;
  const int own = threadIdx.x / 256, d = Plan::kDirections == 2 ? own : blockIdx.y;
  const Span s = tile_span(a.layout, tile);
  if (s.rows == 0) return;
  const uint32_t base = shared_address(shared);
  // c and b of each direction, then stages: x, dy, and of each direction the state and its
  // gradient.
  constexpr int kFirstStage = 2 * Plan::kDirections * Plan::kRows;
  const int c_at = 2 * own * Plan::kRows, b_at = c_at + Plan::kRows;
  const int row0 = 16 * warp + g, row1 = row0 + 8;
#pragma unroll
  for (int i = 0; i < Plan::kDirections; ++i) {
    const int which = Plan::kDirections == 2 ? i : blockIdx.y;
    const auto& in = a.in.direction[which];
    if (!a.on[which]) continue;
    load_rows<N, kThreads>(base + 2 * i * Plan::kRows, in.c.data + group * N, in.c.stride, s,
                           {0, s.rows}, a.layout, a.shift == 1 ? which : -1, threadIdx.x);
    load_rows<N, kThreads>(base + (2 * i + 1) * Plan::kRows, in.b.data + group * N, in.b.stride, s,
                           {0, s.rows}, a.layout, -1, threadIdx.x);
  }
  const auto state_at = [&](int which, int part) {
    return (static_cast<int64_t>(which) * a.layout.tiles + tile) * a.parts.count + part;
  };
  // Thread i handles row i % 128 of one direction; further threads have none.
  const auto row_logs = [&] {
    const int i = thread_number();
    const int of = Plan::kDirections == 2 ? i / kTile : blockIdx.y;
    return RowLogs{of, i % kTile, a.shift, i < kTile * Plan::kDirections && a.on[of & 1], s};
  };
  if (threadIdx.x < kTile * Plan::kDirections)
#pragma unroll
    for (int stage = 0; stage < Plan::kStages; ++stage) {
      const auto logs = row_logs();
      logs.put_fixed(reach[stage][logs.d][logs.r], entry[stage][logs.d][logs.r]);
    }
  const auto start_copies = [&](int part, int stage) {
    if (const auto logs = row_logs(); logs.on)
      logs.start_copies(reach[stage][logs.d][logs.r], entry[stage][logs.d][logs.r],
                        a.decays.sums(logs.d, a.parts.head(part)),
                        a.decays.entries(logs.d, a.parts.head(part)));
    const uint32_t to = base + kFirstStage + stage * Plan::kStage;
    RowCopies<P, kThreads>(a.in.x.data + s.begin * a.in.x.stride, a.in.x.stride, thread_number())
        .start(to, part * P, a.in.x.stride, s.rows, thread_number());
    RowCopies<P, kThreads>(a.dy.data + s.begin * a.dy.stride, a.dy.stride, thread_number())
        .start(to + Plan::kX, part * P, a.dy.stride, s.rows, thread_number());
#pragma unroll
    for (int i = 0; i < Plan::kDirections; ++i) {
      const int which = Plan::kDirections == 2 ? i : blockIdx.y;
      if (!a.on[which]) continue;
      const int64_t at = state_at(which, part) * (P * N);
      const uint32_t state = to + 2 * Plan::kX + 2 * i * Plan::kState;
      load_state<P, N, kThreads>(state, a.states + at, thread_number());
      load_state<P, N, kThreads>(state + Plan::kState, a.dstates + at, thread_number());
    }
    commit_copies();
  };

  const int first = group * a.parts.per_group, last = first + a.parts.per_group;
  const bool on = a.on[d];
  // Rows of the sequences that enter and leave. Only these depend on the states.
  const Crossing leaving = crossing(a.layout, d, s), entering = crossing(a.layout, 1 - d, s);
  const bool enters[2] = {entering.rows.has(row0), entering.rows.has(row1)};
  const bool leaves[2] = {leaving.rows.has(row0), leaving.rows.has(row1)};
  const auto far_of = [&](int part) {
    return on ? a.decays.sums(d, a.parts.head(part))[far_token(d, s)] : 0.0f;
  };
  float dc[N / 8][4] = {}, db[N / 8][4] = {};
  float next_far = far_of(first);
  start_copies(first, 0);
  for (int part = first; part < last; ++part) {
    const int stage = Plan::kStages == 2 ? (part - first) & 1 : 0;
    if (Plan::kStages == 1 && part > first) start_copies(part, 0);
    const float far = next_far;
    wait_copies<0>();
    publish_copies();
    __syncthreads();
    if (Plan::kStages == 2 && part + 1 < last) start_copies(part + 1, stage ^ 1);
    if (part + 1 < last) next_far = far_of(part + 1);
    const float w[2] = {power_of_two(reach[stage][d][row0]), power_of_two(reach[stage][d][row1])};
    const float u[2] = {power_of_two(far - entry[stage][d][row0]),
                        power_of_two(far - entry[stage][d][row1])};

    const int at = kFirstStage + stage * Plan::kStage;
    const int state = at + 2 * Plan::kX + 2 * own * Plan::kState;
    if (on) {
      float sum[N / 8][4];
      through_state<P, N>(sum, base + at + Plan::kX, 16 * warp, base + state, lane);
      const float2 dreach = gather_rows<N>(dc, sum, w, enters, base + c_at, row0, c);
      through_state<P, N>(sum, base + at, 16 * warp, base + state + Plan::kState, lane);
      const float2 dentry = gather_rows<N>(db, sum, u, leaves, base + b_at, row0, c);
      if (c == 0) {
        float* reaches = place(a.gathered, a.parts, a.layout.n, 5 + 2 * d, part) + s.begin;
        float* entries = place(a.gathered, a.parts, a.layout.n, 6 + 2 * d, part) + s.begin;
        if (row0 < s.rows) reaches[row0] = dreach.x, entries[row0] = dentry.x;
        if (row1 < s.rows) reaches[row1] = dreach.y, entries[row1] = dentry.y;
      }
      float dot = 0;
      for (int i = threadIdx.x % 256; i < P * N / 8; i += 256) {
        const uint4 v = load_shared(base + state + 16 * i);
        const uint4 dv = load_shared(base + state + Plan::kState + 16 * i);
        dot += low(v.x) * low(dv.x) + high(v.x) * high(dv.x) + low(v.y) * low(dv.y) +
               high(v.y) * high(dv.y) + low(v.z) * low(dv.z) + high(v.z) * high(dv.z) +
               low(v.w) * low(dv.w) + high(v.w) * high(dv.w);
      }
      // Four lanes have the same value of a row: only one adds it.
      dot = warp_sum((leaving.passes ? power_of_two(far) * dot : 0.0f) +
                     (c == 0 ? dentry.x + dentry.y : 0.0f));
      if (lane == 0) warp_sums[threadIdx.x / 32] = dot;
    }
    __syncthreads();  // also: all have read x, dy and the states
    if (threadIdx.x % 256 == 0 && on) {
      float all = 0;
      for (int w = 0; w < 8; ++w) all += warp_sums[8 * own + w];
      a.gathered.dots[state_at(d, part)] = all;
    }
  }
  if (!on) return;

  float* shares =
      a.gathered.shares +
      ((static_cast<int64_t>(a.gathered.runs) * a.layout.n + s.begin) * a.parts.G + group) * 4 * N +
      2 * d * N;
  const int64_t share_row = static_cast<int64_t>(a.parts.G) * 4 * N;
#pragma unroll
  for (int j = 0; j < N / 8; ++j) {
    const int column = 8 * j + 2 * c;
    if (row0 < s.rows) {
      *reinterpret_cast<float2*>(shares + row0 * share_row + column) =
          make_float2(db[j][0], db[j][1]);
      *reinterpret_cast<float2*>(shares + row0 * share_row + N + column) =
          make_float2(dc[j][0], dc[j][1]);
    }
    if (row1 < s.rows) {
      *reinterpret_cast<float2*>(shares + row1 * share_row + column) =
          make_float2(db[j][2], db[j][3]);
      *reinterpret_cast<float2*>(shares + row1 * share_row + N + column) =
          make_float2(dc[j][2], dc[j][3]);
    }
  }
}

}  // namespace

int state_gradient_shared(const Parts& parts) {
  int bytes = 0;
  with_sizes(parts, [&](auto p, auto n) {
    using Only = Plan<decltype(p)::value, decltype(n)::value>;
    bytes = Only::kBytes + Only::kFixed;
    return cudaSuccess;
  });
  return bytes;
}

cudaError_t scan_state_gradient(const DeviceShape& shape, const ScanLayout& layout,
                                const ScanInputs<BFloat16>& in, const Decays& decays,
                                StridedRows<const BFloat16> dy, const BFloat16* states,
                                const BFloat16* dstates, const Gathered& gathered,
                                cudaStream_t stream) {
  const Arguments a{{shape, layout, decays}, in, dy, states, dstates, gathered};
  const Parts& parts = a.parts;
  return with_sizes(parts, [&](auto p, auto n) {
    constexpr int P = decltype(p)::value, N = decltype(n)::value;
    using Plan = Plan<P, N>;
    auto* kernel = state_gradient_kernel<P, N>;
    if (const auto e = allow_shared(kernel, Plan::kBytes); e != cudaSuccess) return e;
    kernel<<<dim3(layout.tiles, 2 / Plan::kDirections, parts.G), Plan::kThreads, Plan::kBytes,
             stream>>>(a);
    return cudaGetLastError();
  });
}

}  // namespace hydramix::cuda
