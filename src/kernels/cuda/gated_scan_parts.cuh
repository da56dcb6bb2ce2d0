// SPDX-License-Identifier: Apache-2.0
// Parts of the gated scan: how tokens are divided, and the decays between them.
//
// Tokens are counted in the order of the scan, as positions. A window is 64 positions, on a fixed
// grid. A piece is what a window has of one sequence; kernels handle the pieces of a window one
// after another. A piece is four blocks of 16 positions. All logarithms are to base 2. In a block
// with the gates g_0 .. g_15,
//
//   enter_i = g_0 + ... + g_i        from before the block to position i
//   leave_j = g_{j+1} + ... + g_15   from position j to the end of the block
//   total   = g_0 + ... + g_15
//
// Between two blocks the matrix is (q 2^enter) diag(2^(totals between)) (k 2^leave)^T. Inside a
// block it is divided by halves: of level l = 8, 4, 2, 1 are the pairs i > j of which i is in the
// upper and j in the lower half of 2 l positions, and with the border of the halves in place of
// that of a block they are again such a product. At each level a position is either in an upper
// half, and gives its q, or in a lower one, and gives its k: one tile holds both. All factors are
// at most 1.
//
// A warp owns a block of positions: in products the 16 rows of the matrix; elsewhere a lane owns
// two neighbouring keys of all 16 positions, and sums over positions stay within the lane. 128 keys
// are divided between two warps.
#pragma once

#include <type_traits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/gated_scan.h"
#include "kernels/cuda/mma.cuh"

namespace hydramix::cuda::gated {

using kernels::StridedRows;

constexpr int kWindow = 64, kBlock = 16, kBlocks = kWindow / kBlock;
constexpr int kLevels = 4;
constexpr float kLog2e = 1.44269504f;

template <int N, int P>
struct Sizes {
  static constexpr int kParts = N > 64 ? N / 64 : 1;  // warps that share a block
  static constexpr int kWarps = kBlocks * kParts, kThreads = 32 * kWarps;
  static constexpr int kKeys = N / kParts, kValues = P / kParts;  // of a warp
};

struct Arguments {
  int n, H;
  bool reverse, float_gates;
  const int2* bounds;
  StridedRows<const BFloat16> q, k, x, dy;
  StridedRows<const void> g;
  const BFloat16 *states, *dstates;  // (windows, H, N, P), where a sequence crosses a border
  StridedRows<BFloat16> y, dq, dk, dx;
  StridedRows<void> dg;
};

__device__ __forceinline__ int64_t row_of(const Arguments& a, int place) {
  return a.reverse ? a.n - 1 - place : place;
}
// The first position of the sequence at `place`, and one past its last.
__device__ __forceinline__ int2 sequence_at(const Arguments& a, int place) {
  const int2 rows = __ldg(a.bounds + row_of(a, place));
  return a.reverse ? make_int2(a.n - rows.y, a.n - rows.x) : rows;
}

// Rows of a window or piece, counted from position `first`, of which [low, high) are read.
struct Rows {
  int first, low, high;
  __device__ __forceinline__ bool has(int r) const { return r >= low && r < high; }
};

struct Piece {
  Rows rows;
  bool entered, left;  // the sequence begins before, ends after
};
__device__ __forceinline__ Piece piece_at(const Arguments& a, int first, int end) {
  const int2 sequence = sequence_at(a, first);
  const int stop = min(sequence.y, end);
  return {{first, 0, stop - first}, sequence.x<first, sequence.y> stop};
}

// Copies the values of a head to a tile; zeros where there are none.
template <int P, int kThreads>
__device__ __forceinline__ void start_copies(uint32_t to, const Arguments& a,
                                             const StridedRows<const BFloat16>& from, int head,
                                             const Rows& rows) {
  constexpr int kPieces = Tile<P>::kPieces;
#pragma unroll
  for (int i = threadIdx.x; i < kWindow * kPieces; i += kThreads) {
    const int r = i / kPieces, piece = i % kPieces;
    const bool valid = rows.has(r);
    const int64_t row = valid ? row_of(a, rows.first + r) : 0;
    copy_async(to + Tile<P>::offset(r, piece), from.data + row * from.stride + head * P + piece * 8,
               valid);
  }
}
// A state (N, P).
template <int N, int P, int kThreads>
__device__ __forceinline__ void start_state_copies(uint32_t to, const BFloat16* from) {
  constexpr int kPieces = Tile<P>::kPieces;
#pragma unroll
  for (int i = threadIdx.x; i < N * kPieces; i += kThreads)
    copy_async(to + Tile<P>::offset(i / kPieces, i % kPieces), from + i * 8, true);
}

// Column `column` of the 16 positions of a block. Addresses differ by a constant.
template <typename T>
struct Places {
  T* first;
  int64_t step;

  __device__ __forceinline__ Places(const Arguments& a, T* data, int64_t stride, const Rows& rows,
                                    int block, int column)
      : first(data + row_of(a, rows.first + block * kBlock) * stride + column),
        step(a.reverse ? -stride : stride) {}
  // f(t, address) for the positions that there are.
  template <typename F>
  __device__ __forceinline__ void visit(const Rows& rows, int block, const F& f) const {
    T* at = first;
#pragma unroll
    for (int t = 0; t < kBlock; ++t) {
      if (rows.has(block * kBlock + t)) f(t, at);
      at += step;
    }
  }
};

// Keys `column` and `column` + 1, counted over all heads, of the positions of a block; zero where
// there are none.
__device__ __forceinline__ void load_keys(const Arguments& a,
                                          const StridedRows<const BFloat16>& from, const Rows& rows,
                                          int block, int column, uint32_t (&to)[kBlock]) {
#pragma unroll
  for (int t = 0; t < kBlock; ++t) to[t] = 0;
  Places<const BFloat16>(a, from.data, from.stride, rows, block, column)
      .visit(rows, block,
             [&](int t, const BFloat16* at) { to[t] = *reinterpret_cast<const uint32_t*>(at); });
}
__device__ __forceinline__ void store_keys(const Arguments& a, const StridedRows<BFloat16>& to,
                                           const Rows& rows, int block, int column,
                                           const float2 (&from)[kBlock]) {
  Places<BFloat16>(a, to.data, to.stride, rows, block, column)
      .visit(rows, block, [&](int t, BFloat16* at) {
        *reinterpret_cast<uint32_t*>(at) = pack(from[t].x, from[t].y);
      });
}
// Gates as they are stored. They are converted when they are needed, because an instruction that
// converts them waits for the load.
struct StoredGates {
  uint2 stored[kBlock];

  __device__ __forceinline__ void load(const Arguments& a, const Rows& rows, int block,
                                       int column) {
#pragma unroll
    for (int t = 0; t < kBlock; ++t) stored[t] = make_uint2(0, 0);
    if (a.float_gates)
      Places<const float>(a, static_cast<const float*>(a.g.data), a.g.stride, rows, block, column)
          .visit(rows, block,
                 [&](int t, const float* at) { stored[t] = *reinterpret_cast<const uint2*>(at); });
    else
      Places<const BFloat16>(a, static_cast<const BFloat16*>(a.g.data), a.g.stride, rows, block,
                             column)
          .visit(rows, block, [&](int t, const BFloat16* at) {
            stored[t].x = *reinterpret_cast<const uint32_t*>(at);
          });
  }
  __device__ __forceinline__ void logs(const Arguments& a, float2 (&g)[kBlock]) const {
    if (a.float_gates)
#pragma unroll
      for (int t = 0; t < kBlock; ++t)
        g[t] = make_float2(__uint_as_float(stored[t].x) * kLog2e,
                           __uint_as_float(stored[t].y) * kLog2e);
    else
#pragma unroll
      for (int t = 0; t < kBlock; ++t)
        g[t] = make_float2(low(stored[t].x) * kLog2e, high(stored[t].x) * kLog2e);
  }
};

__device__ __forceinline__ void add(float2& to, const float2& v) { to.x += v.x, to.y += v.y; }
__device__ __forceinline__ void add_product(float2& to, const float2& a, const float2& b) {
  to.x = fmaf(a.x, b.x, to.x), to.y = fmaf(a.y, b.y, to.y);
}
__device__ __forceinline__ float2 product(const float2& a, const float2& b) {
  return make_float2(a.x * b.x, a.y * b.y);
}
__device__ __forceinline__ float2 powers(const float2& log) {
  return make_float2(power_of_two(log.x), power_of_two(log.y));
}
__device__ __forceinline__ float2 unpack(uint32_t two) { return make_float2(low(two), high(two)); }
__device__ __forceinline__ uint32_t scaled(uint32_t two, const float2& log) {
  const float2 v = product(unpack(two), powers(log));
  return pack(v.x, v.y);
}

// f(t, log) for kCount positions of an upper half, from `first` on: with the decay from before the
// first of them.
template <int kCount, typename F>
__device__ __forceinline__ void for_upper(const float2 (&g)[kBlock], int first, const F& f) {
  float2 log = make_float2(0, 0);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    add(log, g[first + i]);
    f(first + i, log);
  }
}
// The same for a lower half, with the decay from each position to the end of the half.
template <int kCount, typename F>
__device__ __forceinline__ void for_lower(const float2 (&g)[kBlock], int first, const F& f) {
  float2 log = make_float2(0, 0);
#pragma unroll
  for (int i = kCount - 1; i >= 0; --i) {
    f(first + i, log);
    add(log, g[first + i]);
  }
}
// lower(t, log) and upper(t, log) for all halves of a level.
template <int kLevel, typename Lower, typename Upper>
__device__ __forceinline__ void for_halves(const float2 (&g)[kBlock], const Lower& lower,
                                           const Upper& upper) {
  constexpr int kHalf = 8 >> kLevel;
#pragma unroll
  for (int first = 0; first < kBlock; first += 2 * kHalf) {
    for_lower<kHalf>(g, first, lower);
    for_upper<kHalf>(g, first + kHalf, upper);
  }
}
// f(level) with integral constants, so that arrays indexed by positions stay in registers.
template <typename F>
__device__ __forceinline__ void for_levels(const F& f) {
  f(std::integral_constant<int, 0>{}), f(std::integral_constant<int, 1>{});
  f(std::integral_constant<int, 2>{}), f(std::integral_constant<int, 3>{});
}

// Sums 16 values over the lanes of a warp. Lane l gets the sum of value l / 2.
__device__ __forceinline__ float sum_each(float (&v)[kBlock], int lane) {
#pragma unroll
  for (int w = 16; w > 1; w /= 2) {
    const bool upper = (lane & w) != 0;
#pragma unroll
    for (int i = 0; i < kBlock / 2; ++i) {
      if (i >= w / 2) break;
      const float sent = upper ? v[i] : v[i + w / 2];
      v[i] = (upper ? v[i + w / 2] : v[i]) + __shfl_xor_sync(0xffffffffu, sent, w);
    }
  }
  return v[0] + __shfl_xor_sync(0xffffffffu, v[0], 1);
}

// The operands of a piece in shared memory.
template <int N, int P>
struct Operands {
  static constexpr int kTile = Tile<N>::bytes(kWindow);
  static constexpr int kBytes = (2 + kLevels) * kTile;
  static constexpr int kParts = Sizes<N, P>::kParts;

  uint32_t q, k, levels;       // q 2^enter, k 2^leave, and the tiles of levels 8, 4, 2, 1
  float (*totals)[N];          // of the blocks
  float (*diagonal)[kWindow];  // q . k of a position, from each part of the keys

  __device__ __forceinline__ Operands(uint32_t at, float (&t)[kBlocks][N],
                                      float (&d)[kParts][kWindow])
      : q(at), k(at + kTile), levels(at + 2 * kTile), totals(t), diagonal(d) {}

  // Fills the operands of a block for the keys of a lane, `column` and `column` + 1 of the head.
  // If there are fewer keys than a warp has columns, several lanes write the same values.
  __device__ __forceinline__ void fill(const float2 (&g)[kBlock], const uint32_t (&queries)[kBlock],
                                       const uint32_t (&keys)[kBlock], int block, int part,
                                       int column, int lane) const {
    const auto put = [&](uint32_t tile, int t, uint32_t two) {
      store_shared(tile + Tile<N>::pair(block * kBlock + t, column), two);
    };
    float2 total = make_float2(0, 0);
    for_upper<kBlock>(g, 0, [&](int t, const float2& log) {
      put(q, t, scaled(queries[t], log));
      total = log;
    });
    for_lower<kBlock>(g, 0, [&](int t, const float2& log) { put(k, t, scaled(keys[t], log)); });
    *reinterpret_cast<float2*>(&totals[block][column]) = total;
    for_levels([&](auto level) {
      const uint32_t tile = levels + level * kTile;
      for_halves<level>(
          g, [&](int t, const float2& log) { put(tile, t, scaled(keys[t], log)); },
          [&](int t, const float2& log) { put(tile, t, scaled(queries[t], log)); });
    });
    float dots[kBlock];
#pragma unroll
    for (int t = 0; t < kBlock; ++t) {
      const float2 v = product(unpack(queries[t]), unpack(keys[t]));
      dots[t] = 2 * lane < N ? v.x + v.y : 0.0f;
    }
    const float dot = sum_each(dots, lane);
    if (lane % 2 == 0) diagonal[part][block * kBlock + lane / 2] = dot;
  }
};

// sum (16 x 16) += rows `row` .. `row` + 15 of a tile, times 16 rows of another one, transposed.
template <int W>
__device__ __forceinline__ void add_dots(float (&sum)[2][4], uint32_t tile, int row, uint32_t other,
                                         int other_row, int lane) {
#pragma unroll
  for (int k = 0; k < W / 16; ++k) {
    uint32_t a[4], b[4];
    Tile<W>::a(a, tile, row, 2 * k, lane);
    Tile<W>::b_of_rows(b, other, other_row, 2 * k, lane);
    multiply(sum[0], a, b[0], b[1]);
    multiply(sum[1], a, b[2], b[3]);
  }
}
// acc += matrix (16 x 16) times 16 rows of a tile, columns 8 `piece` and following.
template <int W, int kTiles>
__device__ __forceinline__ void add_mixed(float (&acc)[kTiles][4], const uint32_t (&matrix)[4],
                                          uint32_t tile, int row, int piece, int lane) {
#pragma unroll
  for (int j = 0; j < kTiles; j += 2) {
    uint32_t b[4];
    Tile<W>::b(b, tile, row, piece + j, lane);
    multiply(acc[j], matrix, b[0], b[1]);
    multiply(acc[j + 1], matrix, b[2], b[3]);
  }
}
__device__ __forceinline__ void pack_matrix(uint32_t (&to)[4], const float (&m)[2][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = pack(m[i / 2][i % 2 * 2], m[i / 2][i % 2 * 2 + 1]);
}

// Row and column of entry e of the 8 x 16 block t of a 16 x 16 matrix that a lane holds.
struct Entry {
  int row, column;
  __device__ __forceinline__ Entry(int t, int e, int lane)
      : row((lane >> 2) + 8 * (e >> 1)), column(8 * t + 2 * (lane & 3) + (e & 1)) {}
  // Whether the pair belongs to a level, in either order.
  __device__ __forceinline__ bool in_level(int level) const {
    return (row ^ column) >> (3 - level) == 1;
  }
};

// acc (16 x kValues) = the rows of the matrix of a block, times the values of all blocks that it
// reads, plus the product with the state. kMirror: the columns of the matrix instead, so the later
// blocks; `own` and `other` change places.
template <int N, int P, bool kMirror>
__device__ __forceinline__ void mix(float (&acc)[Sizes<N, P>::kValues / 8][4],
                                    const Operands<N, P>& o, int block, int blocks, int part,
                                    uint32_t values, uint32_t state, bool has_state, int lane) {
  using S = Sizes<N, P>;
  constexpr int kSteps = N / 16;
  const uint32_t own = kMirror ? o.k : o.q, other = kMirror ? o.q : o.k;
  const int piece = part * S::kValues / 8;
#pragma unroll
  for (int j = 0; j < S::kValues / 8; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) acc[j][e] = 0;

  float inside[2][4];
#pragma unroll
  for (int t = 0; t < 2; ++t)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const Entry at(t, e, lane);
      float dot = 0;
#pragma unroll
      for (int p = 0; p < S::kParts; ++p) dot += o.diagonal[p][block * kBlock + at.row];
      inside[t][e] = at.row == at.column ? dot : 0.0f;
    }
#pragma unroll
  for (int level = 0; level < kLevels; ++level) {
    const uint32_t tile = o.levels + level * Operands<N, P>::kTile;
    float sum[2][4] = {};
    add_dots<N>(sum, tile, block * kBlock, tile, block * kBlock, lane);
#pragma unroll
    for (int t = 0; t < 2; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Entry at(t, e, lane);
        const bool earlier = kMirror ? at.row < at.column : at.row > at.column;
        if (earlier && at.in_level(level)) inside[t][e] = sum[t][e];
      }
  }
  uint32_t matrix[4];
  pack_matrix(matrix, inside);
  add_mixed<P>(acc, matrix, values, block * kBlock, piece, lane);

  uint32_t rows[kSteps][4];
  float logs[kSteps][4] = {};  // of the blocks passed, keys 16 k + 2 c and + 1, + 8, + 9
#pragma unroll
  for (int k = 0; k < kSteps; ++k) Tile<N>::a(rows[k], own, block * kBlock, 2 * k, lane);
  const auto decayed = [&](uint32_t(&to)[4], int k) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      to[i] = scaled(rows[k][i], make_float2(logs[k][i / 2 * 2], logs[k][i / 2 * 2 + 1]));
  };
#pragma unroll 1
  for (int at = kMirror ? block + 1 : block - 1; at >= 0 && at < blocks; at += kMirror ? 1 : -1) {
    float sum[2][4] = {};
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      uint32_t a[4], b[4];
      decayed(a, k);
      Tile<N>::b_of_rows(b, other, at * kBlock, 2 * k, lane);
      multiply(sum[0], a, b[0], b[1]);
      multiply(sum[1], a, b[2], b[3]);
      const float* totals = o.totals[at] + 16 * k + 2 * (lane & 3);
#pragma unroll
      for (int i = 0; i < 4; ++i) logs[k][i] += totals[i / 2 * 8 + i % 2];
    }
    pack_matrix(matrix, sum);
    add_mixed<P>(acc, matrix, values, at * kBlock, piece, lane);
  }
  if (!has_state) return;
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    uint32_t a[4];
    decayed(a, k);
    add_mixed<P>(acc, a, state, 16 * k, piece, lane);
  }
}

// Stores the rows of a block, of the values of a warp.
template <int kTiles>
__device__ __forceinline__ void store_values(const StridedRows<BFloat16>& to, const Arguments& a,
                                             const float (&acc)[kTiles][4], const Rows& rows,
                                             int block, int column, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = block * kBlock + (lane >> 2) + 8 * half;
    if (!rows.has(r)) continue;
    BFloat16* row = to.data + row_of(a, rows.first + r) * to.stride + column + 2 * (lane & 3);
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
      *reinterpret_cast<uint32_t*>(row + 8 * j) = pack(acc[j][2 * half], acc[j][2 * half + 1]);
  }
}

}  // namespace hydramix::cuda::gated
