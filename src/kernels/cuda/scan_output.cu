// SPDX-License-Identifier: Apache-2.0
// The scan's output. A block owns a tile and some heads of one group. c . b is computed once, as
// one matrix whose lower triangle is of the forward and whose upper triangle of the backward
// direction, and stays in registers; each head then scales it by its decays, puts delta on the
// diagonal, multiplies by x, and adds the product with the states.
//
// Floor: x is read and y written once, 4 bytes per channel; with states another P N / kTile values
// per channel and direction.
#include "kernels/cuda/scan_launch.cuh"

namespace hydramix::cuda {
namespace {

struct Arguments : TileArguments {
  ScanInputs<BFloat16> in;
  const BFloat16* states;
  StridedRows<BFloat16> y;
  int runs;
};

template <int P, int N, bool kStates>
struct Plan {
  static constexpr int kRows = Tile<N>::bytes(kTile);     // of b or c
  static constexpr int kState = kStates ? P * N * 2 : 0;  // of one direction
  static constexpr int kStage = Tile<P>::bytes(kTile) + 2 * kState;
  // c stays for the states; b is needed at the beginning only; the stages then overwrite it.
  static constexpr int kStages = 2 * kRows + 2 * kStage;
  static constexpr int kBytes = kStages > 4 * kRows ? kStages : 4 * kRows;
};

// Computes the rows redo.window of a tile.
template <int P, int N, bool kStates>
__device__ __forceinline__ void output_tile(const Arguments& a, Redo& redo) {
  using Plan = Plan<P, N, kStates>;
  constexpr int kThreads = 256;
  extern __shared__ __align__(1024) uint8_t shared[];
  // Aligned, because pairs of them are read at once.
  __shared__ __align__(16) float reach[2][2][kTile], entry[2][2][kTile];  // [stage][direction]
  __shared__ __align__(16) float delta[2][kTile];

  const int tile = blockIdx.x, group = blockIdx.y / a.runs, run = blockIdx.y % a.runs;
  const int length = ceil_div(a.parts.per_group, a.runs);
  const int first_part = group * a.parts.per_group + run * length;
  const int last_part = min(first_part + length, (group + 1) * a.parts.per_group);
  const Span s = redo.tile;
  const int thread = thread_number();
  const int warp = thread / 32, lane = thread % 32;
  const uint32_t base = shared_address(shared);
  const uint32_t stages = base + 2 * Plan::kRows;

#pragma unroll
  for (int d = 0; d < 2; ++d) {
    const auto& in = a.in.direction[d];
    const bool on = a.on[d];
    load_rows<N, kThreads>(base + d * Plan::kRows, on ? in.c.data + group * N : nullptr,
                           in.c.stride, s, redo.window, a.layout, a.shift == 1 ? d : -1, thread);
    load_rows<N, kThreads>(stages + d * Plan::kRows, on ? in.b.data + group * N : nullptr,
                           in.b.stride, s, redo.window, a.layout, -1, thread);
  }
  commit_copies();
  wait_copies<0>();
  __syncthreads();

  // c . b, as operand A of the 16 x 16 block of columns k.
  const DiagonalBlock diagonal(lane, a.shift, a.on, /*transposed=*/false);
  uint32_t products[kTile / 16][4], diagonal_products[4];
  const auto add_products = [&](float(&sum)[2][4], int d, int k) {
#pragma unroll
    for (int step = 0; step < N / 16; ++step) {
      uint32_t m[4], b[4];
      Tile<N>::a(m, base + d * Plan::kRows, 16 * warp, 2 * step, lane);
      Tile<N>::b_of_rows(b, stages + d * Plan::kRows, 16 * k, 2 * step, lane);
      multiply(sum[0], m, b[0], b[1]);
      multiply(sum[1], m, b[2], b[3]);
    }
  };
  pack_products</*kTransposed=*/false>(diagonal, warp, add_products, products, diagonal_products);
  __syncthreads();  // all have read b: the stages overwrite it from here on

  // Thread i handles row i % 128 of direction i / 128. In the loop below numbers that follow from
  // the number of the thread are computed again for each part, to save registers.
  const auto row_logs = [&] {
    const int i = thread_number();
    return RowLogs{i / kTile, i % kTile, a.shift, a.on[i / kTile] && redo.window.has(i % kTile), s};
  };
#pragma unroll
  for (int stage = 0; stage < 2; ++stage) {
    const auto logs = row_logs();
    logs.put_fixed(reach[stage][logs.d][logs.r], entry[stage][logs.d][logs.r]);
  }
  const auto start_copies = [&](int part, int stage) {
    const int head = a.parts.head(part);
    const auto logs = row_logs();
    logs.start_copies(reach[stage][logs.d][logs.r], entry[stage][logs.d][logs.r],
                      a.decays.sums(logs.d, head), a.decays.entries(logs.d, head));
    const uint32_t to = stages + stage * Plan::kStage;
    RowCopies<P, kThreads>(a.in.x.data + s.begin * a.in.x.stride, a.in.x.stride, thread_number())
        .start(to, part * P, a.in.x.stride, redo.window.low, redo.window.high, thread_number());
    if constexpr (kStates)
      for (int d = 0; d < 2; ++d)
        if (a.on[d])
          load_state<P, N, kThreads>(
              to + Tile<P>::bytes(kTile) + d * Plan::kState,
              a.states +
                  ((static_cast<int64_t>(d) * a.layout.tiles + tile) * a.parts.count + part) *
                      (P * N),
              thread_number());
    commit_copies();
  };
  LoadedDelta next_delta;
  const auto load_delta = [&](int part) {
    const int i = thread_number();
    if (i < kTile) next_delta.load(a.in, a.parts.head(part), s, i);
  };
  start_copies(first_part, 0);
  load_delta(first_part);
  for (int part = first_part; part < last_part; ++part) {
    const int stage = (part - first_part) & 1;
    if (const int i = thread_number(); i < kTile)
      delta[stage][i] = next_delta.value(a.in.delta_is_float);
    wait_copies<0>();
    publish_copies();
    __syncthreads();
    if (part + 1 < last_part) {
      start_copies(part + 1, stage ^ 1);
      load_delta(part + 1);
    }
    const int lane = thread_number() % 32, c = lane & 3, row0 = 16 * warp + (lane >> 2),
              row1 = row0 + 8;
    const uint32_t x = stages + stage * Plan::kStage;
    const float r[2][2] = {{reach[stage][0][row0], reach[stage][0][row1]},
                           {reach[stage][1][row0], reach[stage][1][row1]}};
    // The block on the diagonal, where both directions meet.
    uint32_t on_diagonal[4];
    {
      float m[2][4];
#pragma unroll
      for (int t = 0; t < 2; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int column = 16 * warp + 8 * t + 2 * c + (e & 1);
          const uint32_t two = diagonal_products[2 * t + (e >> 1)];
          const bool forward = diagonal.in(0, t, e);
          const float log = forward ? r[0][e >> 1] - entry[stage][0][column]
                                    : r[1][e >> 1] - entry[stage][1][column];
          const float v = (e & 1 ? high(two) : low(two)) * power_of_two(log);
          m[t][e] = forward || diagonal.in(1, t, e) ? v : 0.0f;
        }
      if (diagonal.here) diagonal.add(m, delta[stage][row0], delta[stage][row1]);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        on_diagonal[i] = pack(m[i / 2][i % 2 * 2], m[i / 2][i % 2 * 2 + 1]);
    }
    float acc[P / 8][4];
    if constexpr (!kWarpgroups)
#pragma unroll
      for (int j = 0; j < P / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) acc[j][e] = 0;
    begin_products();
    // No branch, so that blocks overlap.
    const auto multiply_blocks = [&](auto first) {
#pragma unroll
      for (int k = decltype(first)::value; k < decltype(first)::value + 4; ++k) {
        const float* entries = entry[stage][k < warp ? 0 : 1] + 16 * k + 2 * c;
        const float reach0 = k < warp ? r[0][0] : r[1][0], reach1 = k < warp ? r[0][1] : r[1][1];
        const float2 e0 = *reinterpret_cast<const float2*>(entries);
        const float2 e1 = *reinterpret_cast<const float2*>(entries + 8);
        const uint32_t decays[4] = {pack(power_of_two(reach0 - e0.x), power_of_two(reach0 - e0.y)),
                                    pack(power_of_two(reach1 - e0.x), power_of_two(reach1 - e0.y)),
                                    pack(power_of_two(reach0 - e1.x), power_of_two(reach0 - e1.y)),
                                    pack(power_of_two(reach1 - e1.x), power_of_two(reach1 - e1.y))};
        uint32_t matrix[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          matrix[i] = k == warp ? on_diagonal[i] : multiply_pair(products[k][i], decays[i]);
        begin_products();
        add_product_with_rows<P>(acc, matrix, x, k, lane, k > 0);
        wait_for_products<1>();  // A of more products would not fit in the registers
      }
    };
    multiply_blocks(Int<0>{});
    if (s.rows > kTile / 2) multiply_blocks(Int<4>{});
    if constexpr (kStates)
#pragma unroll
      for (int d = 0; d < 2; ++d)
        if (a.on[d] && redo.window.has(d == 0 ? 0 : s.rows - 1))
          add_state_product<P, N>(acc, base + d * Plan::kRows, 16 * warp, power_of_two(r[d][0]),
                                  power_of_two(r[d][1]),
                                  x + Tile<P>::bytes(kTile) + d * Plan::kState, lane);
    wait_for_products<0>();
    __syncthreads();  // all have read x: its rows may be overwritten
    uint32_t seen = 0;
    RowStores<P>(a.y.data + s.begin * a.y.stride, a.y.stride, 16 * warp, lane)
        .store(acc, x, 16 * warp, part * P, a.y.stride, redo.window, lane, seen);
    redo.add(seen);
  }
}

template <int P, int N, bool kStates>
__global__ void __launch_bounds__(256, N <= 64 ? 2 : 1) output_kernel(const Arguments a) {
  __shared__ Redo redo;
  const Span s = tile_span(a.layout, blockIdx.x);
  if (s.rows == 0) return;
  redo.begin(s);
  do output_tile<P, N, kStates>(a, redo);
  while (redo.next(a.layout, redo.tile));
}

}  // namespace

int output_shared(const Parts& parts) {
  int bytes = 0;
  with_sizes(parts, [&](auto p, auto n) {
    // Plus reach, entry and delta of each stage, masked_logs.
    bytes = Plan<decltype(p)::value, decltype(n)::value, true>::kBytes + 4 * (2 * 5 * kTile + 16) +
            static_cast<int>(sizeof(Redo));
    return cudaSuccess;
  });
  return bytes;
}

cudaError_t scan_output(const DeviceShape& shape, const ScanLayout& layout,
                        const ScanInputs<BFloat16>& in, const Decays& decays,
                        const BFloat16* states, StridedRows<BFloat16> y, cudaStream_t stream) {
  const Parts parts(shape);
  return with_sizes(parts, [&](auto p, auto n) {
    constexpr int P = decltype(p)::value, N = decltype(n)::value;
    const int slots = multiprocessors() * (N <= 64 ? 2 : 1);
    const int runs = best_runs(static_cast<int64_t>(layout.tiles) * parts.G, parts.per_group, slots,
                               /*overhead=*/2);
    const Arguments a{{shape, layout, decays}, in, states, y, runs};
    const auto launch = [&](auto* kernel, int bytes) {
      if (const auto e = allow_shared(kernel, bytes); e != cudaSuccess) return e;
      kernel<<<dim3(layout.tiles, parts.G * runs), 256, bytes, stream>>>(a);
      return cudaGetLastError();
    };
    return layout.states ? launch(output_kernel<P, N, true>, Plan<P, N, true>::kBytes)
                         : launch(output_kernel<P, N, false>, Plan<P, N, false>::kBytes);
  });
}

}  // namespace hydramix::cuda
