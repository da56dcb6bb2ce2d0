// SPDX-License-Identifier: Apache-2.0
// Gradients inside a tile. With M as in the forward pass (L the decays, so M = (c . b) L off the
// diagonal) and dM_ij = dy_i . x_j, a head gives
//
//   dx_j  = sum_i M_ij dy_i  + 2^(sum_far - entry_j) dstate b_j
//   d(c . b)_ij += dM_ij L_ij                  summed over the heads of a group, in registers
//   dreach_i = sum_j dM_ij M_ij,  dentry_j = the same summed over i,   ddelta_j = dM_jj
//
// Everything is transposed: a warp owns 16 rows j and loops over columns i, so that dx and the sums
// over i are its own. Sums over j are stored in shared memory by every warp and added in order.
// After all heads, d(c . b) gives the tile's gradients of b and c.
//
// Floor: x and dy are read, dx is written, 6 bytes per channel.
#include "kernels/cuda/reference_gpu.h"
#include "kernels/cuda/scan_launch.cuh"

namespace hydramix::cuda {
namespace {

struct Arguments : TileArguments {
  ScanInputs<BFloat16> in;
  StridedRows<const BFloat16> dy;
  const BFloat16* dstates;
  Gathered gathered;
  StridedRows<BFloat16> dx;
};

template <int P, int N, bool kStates>
struct Plan {
  static constexpr int kRows = Tile<N>::bytes(kTile);
  static constexpr int kX = Tile<P>::bytes(kTile);
  static constexpr int kState = kStates ? P * N * 2 : 0;
  static constexpr int kStage = 2 * kX + 2 * kState;
  static constexpr int kStages = N <= 64 ? 2 : 1;
  static constexpr int kMatrix = Tile<kTile>::bytes(kTile);  // d(c . b), over the stages
  static constexpr int kRest = kStages * kStage > kMatrix ? kStages* kStage : kMatrix;
  static constexpr int kBytes = 4 * kRows + kRest;
};

// Sums v[2 t + e], which belongs to column 8 t + 2 c + e, over four of the eight lanes that hold
// the same columns; bit 2 of the lane says which four. The sum is left in the lanes whose bits 4
// and 3 are t and e.
__device__ __forceinline__ float sum_columns(const float (&v)[4], int lane) {
  const bool t = lane & 16, e = lane & 8;
  float first = t ? v[2] : v[0], second = t ? v[3] : v[1];
  first += __shfl_xor_sync(0xffffffffu, t ? v[0] : v[2], 16);
  second += __shfl_xor_sync(0xffffffffu, t ? v[1] : v[3], 16);
  return (e ? second : first) + __shfl_xor_sync(0xffffffffu, e ? first : second, 8);
}

template <int P, int N, bool kStates>
__global__ void __launch_bounds__(256, 1) tile_gradient_kernel(const Arguments a) {
  using Plan = Plan<P, N, kStates>;
  constexpr int kBlocks = kTile / 16, kThreads = 256;
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ __align__(16) float reach[Plan::kStages][2][kTile], entry[Plan::kStages][2][kTile];
  __shared__ __align__(
      16) float column_sums[2][2 * kBlocks][kTile];  // [direction][warp and half of it]
  __shared__ __align__(16) float delta[Plan::kStages][kTile], masked_logs[16];
  __shared__ Redo redo;

  const int tile = blockIdx.x, runs = a.gathered.runs;
  const int group = blockIdx.y / runs, run = blockIdx.y % runs;
  const int length = ceil_div(a.parts.per_group, runs);
  const int first_part = group * a.parts.per_group + run * length;
  const int last_part = min(first_part + length, (group + 1) * a.parts.per_group);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane >> 2, c = lane & 3;
  const Span s = tile_span(a.layout, tile);
  if (s.rows == 0) return;
  const uint32_t base = shared_address(shared);
  const uint32_t stages = base + 4 * Plan::kRows;
  const auto b_tile = [&](int d) { return base + (2 * d) * Plan::kRows; };
  const auto c_tile = [&](int d) { return base + (2 * d + 1) * Plan::kRows; };
  const int row0 = 16 * warp + g, row1 = row0 + 8;  // rows j
  if (threadIdx.x < 16) masked_logs[threadIdx.x] = -kMaskedLog;
  // Whether M_ij, row i and column j of M, belongs to direction d.
  const auto in_direction = [&](int d, int i, int j) {
    return a.on[d] && (d == 0 ? j <= i - a.shift : j >= i + a.shift);
  };

  redo.begin(s);

  do {
#pragma unroll
    for (int d = 0; d < 2; ++d) {
      const auto& in = a.in.direction[d];
      const bool on = a.on[d];
      load_rows<N, kThreads>(b_tile(d), on ? in.b.data + group * N : nullptr, in.b.stride, s,
                             redo.window, a.layout, -1, threadIdx.x);
      load_rows<N, kThreads>(c_tile(d), on ? in.c.data + group * N : nullptr, in.c.stride, s,
                             redo.window, a.layout, a.shift == 1 ? d : -1, threadIdx.x);
    }
    commit_copies();

    // Thread i handles row i % 128 of direction i / 128.
    const auto row_logs = [&] {
      const int i = thread_number();
      return RowLogs{i / kTile, i % kTile, a.shift, a.on[i / kTile] && redo.window.has(i % kTile),
                     s};
    };
#pragma unroll
    for (int stage = 0; stage < Plan::kStages; ++stage) {
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
      RowCopies<P, kThreads>(a.dy.data + s.begin * a.dy.stride, a.dy.stride, thread_number())
          .start(to + Plan::kX, part * P, a.dy.stride, redo.window.low, redo.window.high,
                 thread_number());
      if constexpr (kStates)
#pragma unroll
        for (int d = 0; d < 2; ++d)
          if (a.on[d])
            load_state<P, N, kThreads>(
                to + 2 * Plan::kX + d * Plan::kState,
                a.dstates +
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
    wait_copies<1>();
    __syncthreads();

    // (c_i . b_j) at [j, i], and its gradient.
    const DiagonalBlock diagonal(lane, a.shift, a.on, /*transposed=*/true);
    uint32_t products[kBlocks][4], diagonal_products[4];
    float dproducts[kBlocks][2][4] = {}, diagonal_dproducts[2][4] = {};
    const auto add_products = [&](float(&sum)[2][4], int d, int k) {
#pragma unroll
      for (int step = 0; step < N / 16; ++step) {
        uint32_t m[4], b[4];
        Tile<N>::a(m, b_tile(d), 16 * warp, 2 * step, lane);
        Tile<N>::b_of_rows(b, c_tile(d), 16 * k, 2 * step, lane);
        multiply(sum[0], m, b[0], b[1]);
        multiply(sum[1], m, b[2], b[3]);
      }
    };
    pack_products</*kTransposed=*/true>(diagonal, warp, add_products, products, diagonal_products);

    for (int part = first_part; part < last_part; ++part) {
      const int stage = Plan::kStages == 2 ? (part - first_part) & 1 : 0;
      const int head = a.parts.head(part);
      if (Plan::kStages == 1 && part > first_part) {
        __syncthreads();
        start_copies(part, 0);
        load_delta(part);
      }
      if (const int i = thread_number(); i < kTile)
        delta[stage][i] = next_delta.value(a.in.delta_is_float);
      wait_copies<0>();
      publish_copies();
      __syncthreads();
      if (Plan::kStages == 2 && part + 1 < last_part) {
        start_copies(part + 1, stage ^ 1);
        load_delta(part + 1);
      }
      const int lane = thread_number() % 32, c = lane & 3, row0 = 16 * warp + (lane >> 2),
                row1 = row0 + 8;
      const uint32_t x = stages + stage * Plan::kStage, dy = x + Plan::kX;
      uint32_t rows_x[P / 16][4];
#pragma unroll
      for (int k = 0; k < P / 16; ++k) Tile<P>::a(rows_x[k], x, 16 * warp, 2 * k, lane);
      const float e0f = entry[stage][0][row0], e1f = entry[stage][0][row1];
      const float e0b = entry[stage][1][row0], e1b = entry[stage][1][row1];

      float row_sums[2][2] = {};  // [direction][row]
      // dM of the columns 16 k ..
      const auto dmatrix = [&](float(&dm)[2][4], int k) {
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
          for (int e = 0; e < 4; ++e) dm[t][e] = 0;
#pragma unroll
        for (int step = 0; step < P / 16; ++step) {
          uint32_t b[4];
          Tile<P>::b_of_rows(b, dy, 16 * k, 2 * step, lane);
          multiply(dm[0], rows_x[step], b[0], b[1]);
          multiply(dm[1], rows_x[step], b[2], b[3]);
        }
      };
      // The block on the diagonal, where both directions meet.
      float diagonal_columns[2] = {};
      uint32_t on_diagonal[4] = {};
      if (16 * warp < s.rows) {
        float dm[2][4], m[2][4], columns[2][4] = {};
        dmatrix(dm, warp);
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int i = 16 * warp + 8 * t + 2 * c + (e & 1);
            const uint32_t two = diagonal_products[2 * t + (e >> 1)];
            const float product = e & 1 ? high(two) : low(two);
            const bool forward = diagonal.in(0, t, e), any = forward || diagonal.in(1, t, e);
            const float log = forward ? reach[stage][0][i] - (e < 2 ? e0f : e1f)
                                      : reach[stage][1][i] - (e < 2 ? e0b : e1b);
            const float decay = any ? power_of_two(log) : 0.0f;
            const float scaled = dm[t][e] * decay, q = scaled * product;
            m[t][e] = product * decay;
            diagonal_dproducts[t][e] += scaled;
            const float ahead = forward ? q : 0.0f, back = forward ? 0.0f : q;
            columns[0][2 * t + (e & 1)] += ahead;
            columns[1][2 * t + (e & 1)] += back;
            row_sums[0][e >> 1] += ahead;
            row_sums[1][e >> 1] += back;
          }
        if (diagonal.here) {
          float* ddelta = place(a.gathered, a.parts, a.layout.n, 4, part) + s.begin;
          if (redo.window.has(row0)) ddelta[row0] = diagonal.odd ? dm[0][1] : dm[0][0];
          if (redo.window.has(row1)) ddelta[row1] = diagonal.odd ? dm[1][3] : dm[1][2];
          diagonal.add(m, delta[stage][row0], delta[stage][row1]);
        }
        diagonal_columns[0] = sum_columns(columns[0], lane);
        diagonal_columns[1] = sum_columns(columns[1], lane);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          on_diagonal[i] = pack(m[i / 2][i % 2 * 2], m[i / 2][i % 2 * 2 + 1]);
      }
      float acc[P / 8][4];  // dx
      if constexpr (!kWarpgroups)
#pragma unroll
        for (int j = 0; j < P / 8; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) acc[j][e] = 0;
      // Sums over the rows of this warp.
      const int line = 2 * warp + (lane >> 2 & 1),
                column = (lane >> 4) * 8 + 2 * c + (lane >> 3 & 1);
      // No branch, so that blocks overlap. The block on the diagonal is masked: its decays are
      // zero.
      const auto block = [&](auto index, const float(*dm)[4]) {
        constexpr int k = decltype(index)::value;
        const bool forward = k > warp;
        const float* reaches =
            k == warp ? masked_logs : reach[stage][forward ? 0 : 1] + 16 * k + 2 * c;
        const float e0 = forward ? e0f : e0b, e1 = forward ? e1f : e1b;
        float columns[4] = {}, sum0 = 0, sum1 = 0;
        uint32_t matrix[4];
#pragma unroll
        for (int t = 0; t < 2; ++t) {
          const float2 r = *reinterpret_cast<const float2*>(reaches + 8 * t);
          float m[4];
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float decay = power_of_two((e & 1 ? r.y : r.x) - (e < 2 ? e0 : e1));
            const uint32_t two = products[k][2 * t + (e >> 1)];
            // The sums over rows and columns nearly cancel later, so M is not rounded before them.
            m[e] = (e & 1 ? high_now(two) : low_now(two)) * decay;
            dproducts[k][t][e] = fmaf(dm[t][e], decay, dproducts[k][t][e]);
            columns[2 * t + (e & 1)] = fmaf(dm[t][e], m[e], columns[2 * t + (e & 1)]);
            (e < 2 ? sum0 : sum1) = fmaf(dm[t][e], m[e], e < 2 ? sum0 : sum1);
          }
          matrix[2 * t] = pack(m[0], m[1]);
          matrix[2 * t + 1] = pack(m[2], m[3]);
        }
        row_sums[0][0] += forward ? sum0 : 0.0f, row_sums[0][1] += forward ? sum1 : 0.0f;
        row_sums[1][0] += forward ? 0.0f : sum0, row_sums[1][1] += forward ? 0.0f : sum1;
        const float sum = sum_columns(columns, lane);
        column_sums[forward ? 0 : 1][line][16 * k + column] = k == warp ? diagonal_columns[1] : sum;
#pragma unroll
        for (int i = 0; i < 4; ++i) matrix[i] = k == warp ? on_diagonal[i] : matrix[i];
        begin_products();
        add_product_with_rows<P>(acc, matrix, dy, k, lane, k > 0);
        wait_for_products<1>();  // A of more products would not fit in the registers
      };
      // Half of the columns i. A warpgroup computes dM of all of them at once.
      const auto half = [&](auto index) {
        constexpr int h = decltype(index)::value;
        if constexpr (kWarpgroups) {
          float dm[8][4];
          begin_products();
#pragma unroll
          for (int k = 0; k < P / 16; ++k)
            set_product_with_columns<P>(dm, rows_x[k], dy, 64 * h, k);
          wait_for_products<0>();
          block(Int<4 * h>{}, dm), block(Int<4 * h + 1>{}, dm + 2);
          block(Int<4 * h + 2>{}, dm + 4), block(Int<4 * h + 3>{}, dm + 6);
        } else {
          const auto alone = [&](auto k) {
            float dm[2][4];
            dmatrix(dm, decltype(k)::value);
            block(k, dm);
          };
          alone(Int<4 * h>{}), alone(Int<4 * h + 1>{});
          alone(Int<4 * h + 2>{}), alone(Int<4 * h + 3>{});
        }
      };
      half(Int<0>{});
      if (s.rows > kTile / 2) half(Int<1>{});
      if constexpr (kStates)
#pragma unroll
        for (int d = 0; d < 2; ++d)
          if (a.on[d] && redo.window.has(d == 0 ? s.rows - 1 : 0)) {
            const float far = a.decays.sums(d, head)[far_token(d, s)];
            add_state_product<P, N>(acc, b_tile(d), 16 * warp,
                                    power_of_two(far - (d == 0 ? e0f : e0b)),
                                    power_of_two(far - (d == 0 ? e1f : e1b)),
                                    x + 2 * Plan::kX + d * Plan::kState, lane);
          }
      wait_for_products<0>();
      __syncwarp();
      uint32_t seen = 0;
      RowStores<P>(a.dx.data + s.begin * a.dx.stride, a.dx.stride, 16 * warp, lane)
          .store(acc, x, 16 * warp, part * P, a.dx.stride, redo.window, lane, seen);
#pragma unroll
      for (int d = 0; d < 2; ++d)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float sum = row_sums[d][r];
          sum += __shfl_xor_sync(0xffffffffu, sum, 1);
          sum += __shfl_xor_sync(0xffffffffu, sum, 2);
          note(seen, pack(sum, sum));
          const int j = r == 0 ? row0 : row1;
          if (c == 0 && redo.window.has(j) && a.on[d])
            place(a.gathered, a.parts, a.layout.n, 2 * d + 1, part)[s.begin + j] = sum;
        }
      column_sums[0][line][16 * warp + column] = diagonal_columns[0];
      __syncthreads();  // all column sums are written
      if (const auto logs = row_logs(); logs.on) {
        const int block = logs.r / 16;
        float sum = 0;
        const int first = logs.d == 0 ? 0 : block, last = logs.d == 0 ? block : (s.rows - 1) / 16;
        for (int w = 2 * first; w <= 2 * last + 1; ++w) sum += column_sums[logs.d][w][logs.r];
        place(a.gathered, a.parts, a.layout.n, 2 * logs.d, part)[s.begin + logs.r] = sum;
        note(seen, pack(sum, sum));
      }
      redo.add(seen);
    }

    // d(c . b) to shared memory, as [j, i], for the warps that own rows i.
    __syncthreads();
    uint8_t* matrix = shared + 4 * Plan::kRows;
#pragma unroll
    for (int k = 0; k < kBlocks; ++k) {
      if (k == warp)
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
          for (int e = 0; e < 4; ++e) dproducts[k][t][e] = diagonal_dproducts[t][e];
#pragma unroll
      for (int t = 0; t < 2; ++t) {
        *reinterpret_cast<uint32_t*>(matrix + Tile<kTile>::pair(row0, 16 * k + 8 * t + 2 * c)) =
            pack(dproducts[k][t][0], dproducts[k][t][1]);
        *reinterpret_cast<uint32_t*>(matrix + Tile<kTile>::pair(row1, 16 * k + 8 * t + 2 * c)) =
            pack(dproducts[k][t][2], dproducts[k][t][3]);
      }
    }
    __syncthreads();
    float* shares =
        a.gathered.shares +
        ((static_cast<int64_t>(run) * a.layout.n + s.begin) * a.parts.G + group) * 4 * N;
    const int64_t share_row = static_cast<int64_t>(a.parts.G) * 4 * N;
#pragma unroll 1
    for (int kind = 0; kind < 4; ++kind) {
      const int d = kind / 2;
      const bool of_b = kind % 2 == 0;  // rows are j; else they are i
      if (!a.on[d]) continue;
      float sum[N / 8][4] = {};
#pragma unroll
      for (int k = 0; k < kBlocks; ++k) {
        // of b forward: columns i from the own rows on; of c forward: columns j up to the own rows
        const bool upper = of_b == (d == 0);
        if (upper ? k < warp : k > warp) continue;
        uint32_t m[4];
        if (of_b)
          Tile<kTile>::a(m, stages, 16 * warp, 2 * k, lane);
        else
          Tile<kTile>::a_transposed(m, stages, 16 * k, 2 * warp, lane);
        if (k == warp)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int row = e & 1 ? row1 : row0, column = 16 * k + 2 * c + (e & 2 ? 8 : 0);
            const bool first = of_b ? in_direction(d, column, row) : in_direction(d, row, column);
            const bool second =
                of_b ? in_direction(d, column + 1, row) : in_direction(d, row, column + 1);
            m[e] &= (first ? 0x0000ffffu : 0u) | (second ? 0xffff0000u : 0u);
          }
        const uint32_t other = of_b ? c_tile(d) : b_tile(d);
#pragma unroll
        for (int j = 0; j < N / 16; ++j) {
          uint32_t b[4];
          Tile<N>::b(b, other, 16 * k, 2 * j, lane);
          multiply(sum[2 * j], m, b[0], b[1]);
          multiply(sum[2 * j + 1], m, b[2], b[3]);
        }
      }
      uint32_t seen = 0;
#pragma unroll
      for (int j = 0; j < N / 8; ++j) {
        const int column = kind * N + 8 * j + 2 * c;
        note(seen, pack(sum[j][0], sum[j][1]));
        note(seen, pack(sum[j][2], sum[j][3]));
        if (redo.window.has(row0))
          *reinterpret_cast<float2*>(shares + row0 * share_row + column) =
              make_float2(sum[j][0], sum[j][1]);
        if (redo.window.has(row1))
          *reinterpret_cast<float2*>(shares + row1 * share_row + column) =
              make_float2(sum[j][2], sum[j][3]);
      }
      redo.add(seen);
    }
  } while (redo.next(a.layout, s));
}

}  // namespace

int tile_gradient_shared(const Parts& parts) {
  int bytes = 0;
  with_sizes(parts, [&](auto p, auto n) {
    using Largest = Plan<decltype(p)::value, decltype(n)::value, true>;
    // Plus reach, entry and delta of each stage, column sums, masked_logs.
    bytes = Largest::kBytes +
            4 * (Largest::kStages * 5 * kTile + 2 * 2 * (kTile / 16) * kTile + 16) +
            static_cast<int>(sizeof(Redo));
    return cudaSuccess;
  });
  return bytes;
}

int tile_gradient_runs(const DeviceShape& shape, const ScanLayout& layout) {
  const Parts parts(shape);
  return best_runs(static_cast<int64_t>(layout.tiles) * parts.G, parts.per_group,
                   kReferenceProcessors, /*overhead=*/3);
}

cudaError_t scan_tile_gradient(const DeviceShape& shape, const ScanLayout& layout,
                               const ScanInputs<BFloat16>& in, const Decays& decays,
                               StridedRows<const BFloat16> dy, const BFloat16* dstates,
                               const Gathered& gathered, StridedRows<BFloat16> dx,
                               cudaStream_t stream) {
  const Arguments a{{shape, layout, decays}, in, dy, dstates, gathered, dx};
  const Parts& parts = a.parts;
  return with_sizes(parts, [&](auto p, auto n) {
    constexpr int P = decltype(p)::value, N = decltype(n)::value;
    const auto launch = [&](auto* kernel, int bytes) {
      if (const auto e = allow_shared(kernel, bytes); e != cudaSuccess) return e;
      kernel<<<dim3(layout.tiles, parts.G * gathered.runs), 256, bytes, stream>>>(a);
      return cudaGetLastError();
    };
    return layout.states ? launch(tile_gradient_kernel<P, N, true>, Plan<P, N, true>::kBytes)
                         : launch(tile_gradient_kernel<P, N, false>, Plan<P, N, false>::kBytes);
  });
}

}  // namespace hydramix::cuda
