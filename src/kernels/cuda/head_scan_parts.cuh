// SPDX-License-Identifier: Apache-2.0
// Shared by the kernels of head_scan.h. A block of four warps owns a tile and a head. Rows of the
// tile are in the order of the direction, so its matrix is lower triangular either way. It is
// computed in blocks of 16 x 16, of which those above the diagonal are left out. A warp owns the
// 16 rows of blocks w and 7 - w: every warp then has nine blocks of the triangle, and both rows
// share the operands that they have in common.
//
// All four results are the same product, of rows with the triangle or with the transposed one:
//
//   y_i  = 2^reach_i state c_i + sum_{j<=i} 2^(reach_i - entry_j) (c_i . b_j) x_j
//   dc_i = 2^reach_i state^T dy_i + sum_{j<=i} 2^(reach_i - entry_j) (dy_i . x_j) b_j
//   dx_j = 2^(far - entry_j) dstate b_j + sum_{i>=j} 2^(reach_i - entry_j) (b_j . c_i) dy_i
//   db_j = 2^(far - entry_j) dstate^T x_j + sum_{i>=j} 2^(reach_i - entry_j) (x_j . dy_i) c_i
#pragma once

#include "kernels/cuda/scan_launch.cuh"

namespace hydramix::cuda::heads {

constexpr int kThreads = 128;
constexpr int kBlocks = kTile / 16;

struct Arguments {
  ScanLayout layout;
  Decays decays;
  int H, d;
  const float* diagonal;  // (H), or null
};

// reach and entry of the rows of a tile, in shared memory.
struct Logs {
  float reach[kTile], entry[kTile];
};

// The tile and the head of a block. Neighbouring blocks have neighbouring heads, whose values are
// next to each other in memory.
struct Place {
  int tile, head;
  Span s;

  __device__ __forceinline__ explicit Place(const Arguments& a)
      : tile(blockIdx.x / a.H), head(blockIdx.x - tile * a.H), s(tile_span(a.layout, tile)) {}
  // Whether a sequence crosses the border where the direction enters the tile, or leaves it.
  __device__ __forceinline__ bool enters(const Arguments& a) const {
    const int2 bounds = a.layout.bounds[far_token(1 - a.d, s)];
    return a.d == 0 ? bounds.x < s.begin : bounds.y > s.begin + s.rows;
  }
  __device__ __forceinline__ bool leaves(const Arguments& a) const {
    const int2 bounds = a.layout.bounds[far_token(a.d, s)];
    return a.d == 0 ? bounds.y > s.begin + s.rows : bounds.x < s.begin;
  }
  // A window of the tile, which is in the order of tokens, in that of the direction.
  __device__ __forceinline__ Window window(const Arguments& a, const Redo& redo) const {
    const Window w = redo.window;
    return a.d == 0 ? w : Window{s.rows - w.high, s.rows - w.low};
  }
  // Row 0 of a head, W values wide, and the distance to the next row.
  template <int W, typename T>
  __device__ __forceinline__ StridedRows<T> rows(const Arguments& a,
                                                 const StridedRows<T>& all) const {
    return {all.data + token(a.d, s, 0) * all.stride + head * W,
            a.d == 0 ? all.stride : -all.stride};
  }
  __device__ __forceinline__ int64_t state(const Arguments& a) const {
    return (static_cast<int64_t>(a.d) * a.layout.tiles + tile) * a.H + head;
  }
};

template <int W>
__device__ __forceinline__ void start_copies(uint32_t to, const StridedRows<const BFloat16>& rows,
                                             const Window& window) {
  RowCopies<W, kThreads>(rows.data, rows.stride, threadIdx.x)
      .start(to, 0, rows.stride, window.low, window.high, threadIdx.x);
}

// A thread has one row.
__device__ __forceinline__ void load_logs(Logs& logs, const Arguments& a, const Place& at,
                                          const Window& window) {
  const int r = threadIdx.x;
  const bool here = window.has(r);
  const int t = here ? token(a.d, at.s, r) : 0;
  logs.reach[r] = here ? a.decays.sums(a.d, at.head)[t] : -kMaskedLog;
  logs.entry[r] = here ? a.decays.entries(a.d, at.head)[t] : kMaskedLog;
}

// The two times 16 rows of a warp.
struct OwnRows {
  int lane, block[2];

  __device__ __forceinline__ OwnRows()
      : lane(threadIdx.x % 32),
        block{static_cast<int>(threadIdx.x) / 32,
              kBlocks - 1 - static_cast<int>(threadIdx.x) / 32} {}
  // Row `half` (of two) of block i that this lane has.
  __device__ __forceinline__ int row(int i, int half) const {
    return 16 * block[i] + (lane >> 2) + 8 * half;
  }
};

// Rows of a tile of W columns as operands A.
template <int W>
using Operands = uint32_t[2][W / 16][4];
template <int W>
using Sums = float[2][W / 8][4];

template <int W>
__device__ __forceinline__ void load_operands(Operands<W>& rows, uint32_t tile,
                                              const OwnRows& own) {
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int k = 0; k < W / 16; ++k)
      Tile<W>::a(rows[i][k], tile, 16 * own.block[i], 2 * k, own.lane);
}

template <int W>
__device__ __forceinline__ void clear(Sums<W>& acc) {
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < W / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[i][j][e] = 0;
}

// acc = rows (K columns) times a state, each row scaled. The state is W x K in blocks of 8 x 8, or
// K x W if it is not to be transposed.
template <bool kTransposed, int K, int W>
__device__ __forceinline__ void set_state_product(Sums<W>& acc, const Operands<K>& rows,
                                                  uint32_t state, const float (&scale)[2][2],
                                                  int lane) {
  clear<W>(acc);
  if constexpr (kTransposed) {
#pragma unroll
    for (int j = 0; j < W / 8; ++j)
#pragma unroll
      for (int k = 0; k < K / 16; k += 2) {
        uint32_t b[4];
        load_matrices(b, state + ((j * (K / 8) + 2 * k) * 8 + lane) * 16);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          multiply(acc[i][j], rows[i][k], b[0], b[1]);
          multiply(acc[i][j], rows[i][k + 1], b[2], b[3]);
        }
      }
  } else {
#pragma unroll
    for (int k = 0; k < K / 16; ++k)
#pragma unroll
      for (int j = 0; j < W / 16; ++j) {
        const int block = (2 * k + ((lane >> 3) & 1)) * (W / 8) + 2 * j + (lane >> 4);
        uint32_t b[4];
        load_transposed(b, state + (block * 8 + (lane & 7)) * 16);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          multiply(acc[i][2 * j], rows[i][k], b[0], b[1]);
          multiply(acc[i][2 * j + 1], rows[i][k], b[2], b[3]);
        }
      }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < W / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[i][j][e] *= scale[i][e >> 1];
}

// acc += the warp's rows of the triangle times `values` (W columns). An entry of the triangle is
// the product of a row with a row of `others` (K columns each), decayed; `diagonal` is added on the
// diagonal. kLater: of the transposed triangle, whose rows have the later columns.
template <bool kLater, int K, int W>
__device__ __forceinline__ void add_triangle(Sums<W>& acc, const Operands<K>& rows, uint32_t others,
                                             uint32_t values, const Logs& logs, float diagonal,
                                             int blocks, const OwnRows& own) {
  const int lane = own.lane, g = lane >> 2, c = lane & 3;
  float log[2][2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      log[i][half] = (kLater ? logs.entry : logs.reach)[own.row(i, half)];
  const float* columns = (kLater ? logs.reach : logs.entry) + 2 * c;
  // As Tile::b_of_rows and Tile::b. The permutation of a row's pieces is an exclusive or, so the
  // addresses of a block differ by constants.
  const uint32_t first_other =
      others + Tile<K>::offset((lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
  const uint32_t first_value = values + Tile<W>::offset(lane & 15, lane >> 4);

  // Columns 16 k .. 16 k + 15 of the rows of blocks kFirst .. kLast.
  const auto add_block = [&](int k, auto first, auto last) {
    constexpr int kFirst = decltype(first)::value, kLast = decltype(last)::value;
    const uint32_t other = first_other + Tile<K>::bytes(16 * k);
    const uint32_t value = first_value + Tile<W>::bytes(16 * k);
    float m[2][2][4] = {};
#pragma unroll
    for (int step = 0; step < K / 16; ++step) {
      uint32_t b[4];
      load_matrices(b, other ^ (32 * step));
#pragma unroll
      for (int i = kFirst; i <= kLast; ++i) {
        multiply(m[i][0], rows[i][step], b[0], b[1]);
        multiply(m[i][1], rows[i][step], b[2], b[3]);
      }
    }
    uint32_t matrix[2][4];
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      const float2 column = *reinterpret_cast<const float2*>(columns + 16 * k + 8 * t);
#pragma unroll
      for (int i = kFirst; i <= kLast; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float of_column = e & 1 ? column.y : column.x, of_row = log[i][e >> 1];
          m[i][t][e] *= power_of_two(kLater ? of_column - of_row : of_row - of_column);
        }
    }
#pragma unroll
    for (int i = kFirst; i <= kLast; ++i) {
      if (k == own.block[i])
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int row = g + 8 * (e >> 1), at = 8 * t + 2 * c + (e & 1);
            if (kLater ? at < row : at > row) m[i][t][e] = 0;
            if (at == row) m[i][t][e] += diagonal;
          }
#pragma unroll
      for (int e = 0; e < 4; ++e)
        matrix[i][e] = pack(m[i][e / 2][e % 2 * 2], m[i][e / 2][e % 2 * 2 + 1]);
    }
#pragma unroll
    for (int j = 0; j < W / 16; ++j) {
      uint32_t b[4];
      load_transposed(b, value ^ (32 * j));
#pragma unroll
      for (int i = kFirst; i <= kLast; ++i) {
        multiply(acc[i][2 * j], matrix[i], b[0], b[1]);
        multiply(acc[i][2 * j + 1], matrix[i], b[2], b[3]);
      }
    }
  };
  if constexpr (kLater) {
    const int both = min(own.block[1], blocks);
#pragma unroll 1
    for (int k = own.block[0]; k < both; ++k) add_block(k, Int<0>{}, Int<0>{});
#pragma unroll 1
    for (int k = own.block[1]; k < blocks; ++k) add_block(k, Int<0>{}, Int<1>{});
  } else {
    const int last = min(own.block[1] + 1, blocks), both = min(own.block[0] + 1, blocks);
#pragma unroll 1
    for (int k = 0; k < both; ++k) add_block(k, Int<0>{}, Int<1>{});
#pragma unroll 1
    for (int k = both; k < last; ++k) add_block(k, Int<1>{}, Int<1>{});
  }
}

// Scales of the rows: 2^reach, or 2^(far - entry), where `far` is the reach of the last row.
template <bool kLater>
__device__ __forceinline__ void row_scales(float (&scale)[2][2], const Logs& logs, int rows,
                                           const OwnRows& own) {
  const float far = kLater ? logs.reach[rows - 1] : 0.0f;
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = own.row(i, half);
      scale[i][half] = power_of_two(kLater ? far - logs.entry[r] : logs.reach[r]);
    }
}

// Stores the warp's rows that are in the window. Records in `seen` values that are not finite.
// Four lanes have a row, two neighbouring columns of every eight. They trade, so that each has
// eight columns of every 32.
template <int W>
__device__ __forceinline__ void store_rows(const StridedRows<BFloat16>& to, const Sums<W>& acc,
                                           const Window& window, const OwnRows& own,
                                           uint32_t& seen) {
  const int c = own.lane & 3;
  const auto trade = [&](uint32_t& low_word, uint32_t& high_word, int step) {
    const bool upper = (c & step) != 0;
    const uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? low_word : high_word, step);
    (upper ? low_word : high_word) = got;
  };
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = own.row(i, half);
      const bool here = window.has(r);
      BFloat16* row = to.data + r * to.stride + 8 * c;
#pragma unroll
      for (int m = 0; m < W / 32; ++m) {
        uint32_t words[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
          words[j] = pack(acc[i][4 * m + j][2 * half], acc[i][4 * m + j][2 * half + 1]);
        trade(words[0], words[1], 1);
        trade(words[2], words[3], 1);
        trade(words[0], words[2], 2);
        trade(words[1], words[3], 2);
        if (!here) continue;
#pragma unroll
        for (int j = 0; j < 4; ++j) note(seen, words[j]);
        store_global(row + 32 * m, make_uint4(words[0], words[1], words[2], words[3]));
      }
    }
}

// The passes.

// A state that was computed for a segment of tiles, without what enters the segment.
struct Carries {
  const float* ends;  // as in StatePass; null if nothing is carried
  const float* before;
};
cudaError_t output(const Arguments& a, int P, int N, const ScanInputs<BFloat16>& in,
                   BFloat16* states, const Carries& carries, bool keeps, StridedRows<BFloat16> y,
                   cudaStream_t stream);
cudaError_t gradient(const Arguments& a, int P, int N, const ScanInputs<BFloat16>& in,
                     StridedRows<const BFloat16> dy, const BFloat16* states,
                     const BFloat16* dstates, const ScanGradients<BFloat16>& out,
                     cudaStream_t stream);

// Calls f(Int<P>, Int<N>).
template <typename F>
cudaError_t with_widths(int P, int N, const F& f) {
  if (P == 64) return N == 64 ? f(Int<64>{}, Int<64>{}) : f(Int<64>{}, Int<32>{});
  return N == 64 ? f(Int<32>{}, Int<64>{}) : f(Int<32>{}, Int<32>{});
}

}  // namespace hydramix::cuda::heads
