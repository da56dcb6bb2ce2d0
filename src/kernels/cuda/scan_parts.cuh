// SPDX-License-Identifier: Apache-2.0
// Shared by the kernels of the scan. Notation, for one direction, one head and one tile (all
// logarithms to base 2):
//
//   sum_t     log of the decay from the tile's border through token t: a_first + ... + a_t forward,
//             a_t + ... + a_last backward; of a sequence that begins in the tile, kReset for each
//             token before it, whatever its value, and its own decays
//   entry_t   sum_t - log dt_t
//   reach_i   log of the decay from the border to the state that row i reads: sum_{i-1} forward,
//             sum_{i+1} backward, 0 at the border itself; sum_i without a shift
//   far       the token at the other border: the last one forward, the first one backward
//
//   M_ij = (c_{i-1} . b_j) 2^(reach_i - entry_j),   state' = 2^sum_far state + sum_j 2^(sum_far -
//   entry_j) x_j b_j^T,   y_i = 2^reach_i state c_{i-1}
//
// A head wider than 64 channels is cut into parts of 64 (or 32): everything is linear in them.
#pragma once

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/scan_common.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace hydramix::cuda {

constexpr float kReset = -160;       // before a sequence: the strongest decay
constexpr float kMaskedLog = 1e30f;  // entry of a masked row, and minus its reach
constexpr float kLog2e = 1.4426950408889634f;

// Heads, divided into parts.
struct Parts {
  int P, N, G;
  int count;      // parts of all heads
  int per_head;   // parts of a head
  int per_group;  // parts of a group

  explicit Parts(const DeviceShape& s)
      : P(s.P % 64 == 0 ? 64 : 32),
        N(s.N),
        G(s.G),
        count(s.H * (s.P / P)),
        per_head(s.P / P),
        per_group(count / s.G) {}
  __host__ __device__ int state() const { return P * N; }
  // A division costs 40 instructions, and most heads have one part.
  __device__ __forceinline__ int head(int part) const {
    return per_head == 1 ? part : part / per_head;
  }
};

// sum and entry of every direction, head and token: (2, 2, H, n).
struct Decays {
  float* data;
  int H;
  int64_t n;

  __host__ __device__ float* sums(int d, int h) const {
    return data + ((static_cast<int64_t>(d) * 2) * H + h) * n;
  }
  __host__ __device__ float* entries(int d, int h) const {
    return data + ((static_cast<int64_t>(d) * 2 + 1) * H + h) * n;
  }
};

// Arguments that all kernels over tiles have.
struct TileArguments {
  ScanLayout layout;
  Decays decays;
  Parts parts;
  int shift;
  bool on[2];

  TileArguments(const DeviceShape& shape, const ScanLayout& tiles, const Decays& sums)
      : layout(tiles),
        decays(sums),
        parts(shape),
        shift(shape.shift),
        on{shape.on[0], shape.on[1]} {}
};

// Row r of the tile: 2^reach is 0 if there is no such row.
__device__ __forceinline__ float reach_of(const float* sums, int d, int shift, const Span& s,
                                          int r) {
  if (r >= s.rows) return -kMaskedLog;
  if (shift == 0) return sums[s.begin + r];
  if (d == 0) return r == 0 ? 0.0f : sums[s.begin + r - 1];
  return r == s.rows - 1 ? 0.0f : sums[s.begin + r + 1];
}

__device__ __forceinline__ float entry_of(const float* entries, const Span& s, int r) {
  return r < s.rows ? entries[s.begin + r] : kMaskedLog;
}

// A tile of several sequences is one matrix, with zeros between different sequences. If a value of
// one sequence is not finite, 0 times that value is NaN in the rows of all. So a block records
// whether one of its results is not finite. If so, it repeats the tile for one sequence at a time.
// Finite sums have the same bits either way. In shared memory.
struct Redo {
  Span tile;
  Window window;  // the rows to compute: all of them at first
  int spoilt;

  __device__ __forceinline__ void begin(const Span& s) {
    if (threadIdx.x == 0) tile = s, window = {0, s.rows}, spoilt = 0;
    __syncthreads();
  }
  __device__ __forceinline__ void add(uint32_t seen) {
    if (not_finite(seen)) atomicOr(&spoilt, 1);
  }
  // Whether there are more rows to do; if so, sets `window`. Every thread calls it.
  __device__ __forceinline__ bool next(const ScanLayout& layout, const Span& s) {
    __syncthreads();
    const Window w = window;
    const bool all = w.high - w.low == s.rows;
    if (all ? spoilt == 0 || layout.bounds[s.begin].y >= s.begin + s.rows : w.high == s.rows)
      return false;
    __syncthreads();
    const int low = all ? 0 : w.high;
    if (threadIdx.x == 0) window = {low, min(layout.bounds[s.begin + low].y - s.begin, s.rows)};
    __syncthreads();
    return true;
  }
};
// The index of the thread, for use inside a loop over Redo. The compiler cannot move computations
// with it out of the loop, where their results would occupy registers.
__device__ __forceinline__ int thread_number() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;\n" : "=r"(thread));
  return thread;
}

// reach and entry of one row and direction in shared memory. Values that are the same for every
// head are stored once, the others are copied asynchronously with each head.
struct RowLogs {
  int d, r, shift;
  bool on;  // the direction is on, and the row exists
  Span s;

  __device__ __forceinline__ bool reach_varies() const {
    return on && (shift == 0 || r != (d == 0 ? 0 : s.rows - 1));
  }
  __device__ __forceinline__ void put_fixed(float& reach, float& entry) const {
    if (!on) {
      reach = -kMaskedLog;
      entry = kMaskedLog;
    } else if (!reach_varies()) {
      reach = 0;
    }
  }
  __device__ __forceinline__ void start_copies(float& reach, float& entry, const float* sums,
                                               const float* entries) const {
    const int t = s.begin + r;
    if (reach_varies())
      copy_async_word(shared_address(&reach), sums + (shift == 0 ? t : d == 0 ? t - 1 : t + 1));
    if (on) copy_async_word(shared_address(&entry), entries + t);
  }
};

// The rows of a tile into shared memory: token begin + r in row r, zeros outside the window. With
// `neighbour` = d >= 0, row r gets the previous token in the order of direction d instead, or zeros
// where its sequence starts.
template <int W, int kThreads>
__device__ __forceinline__ void load_rows(uint32_t to, const BFloat16* from, int64_t row_stride,
                                          const Span& s, const Window& window,
                                          const ScanLayout& layout, int neighbour, int thread) {
  constexpr int kCopies = kTile * Tile<W>::kPieces;
#pragma unroll
  for (int step = 0; step < (kCopies + kThreads - 1) / kThreads; ++step) {
    const int i = step * kThreads + thread;
    if (kCopies % kThreads != 0 && i >= kCopies) break;
    const int r = i / Tile<W>::kPieces, piece = i % Tile<W>::kPieces;
    bool valid = from != nullptr && window.has(r);
    int t = s.begin + r;
    if (valid && neighbour >= 0) {
      valid = !starts(layout, neighbour, t);
      t += neighbour == 0 ? -1 : 1;
    }
    const BFloat16* source = valid ? from + t * row_stride + piece * 8 : from;
    copy_async(to + Tile<W>::offset(r, piece), source, valid);
  }
}

// Repeated copies of a tile's rows by kThreads threads. A thread keeps the address of its first
// piece; the others differ by constants.
template <int W, int kThreads>
class RowCopies {
 public:
  // from: the row of the tile's first token.
  __device__ __forceinline__ RowCopies(const BFloat16* from, int64_t row_stride, int thread)
      : from_(from + thread / kPieces * row_stride + thread % kPieces * 8) {}

  // Copies from `offset` values after the first row on: rows [low, high), zeros for the others.
  __device__ __forceinline__ void start(uint32_t to, int64_t offset, int64_t row_stride, int low,
                                        int high, int thread) const {
    const int row = thread / kPieces;
    if (kRows > kTile && row >= kTile) return;
    const uint32_t first = to + Tile<W>::offset(row, thread % kPieces);
    const BFloat16* from = from_ + offset;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const int r = row + i * kRows;
      // Rows that are a multiple of eight apart are permuted alike.
      const uint32_t at =
          kRows % 8 == 0 ? first + i * kRows * W * 2 : to + Tile<W>::offset(r, thread % kPieces);
      copy_async(at, from, r >= low && r < high);
      from += kRows * row_stride;
    }
  }
  __device__ __forceinline__ void start(uint32_t to, int64_t offset, int64_t row_stride, int rows,
                                        int thread) const {
    start(to, offset, row_stride, 0, rows, thread);
  }

 private:
  static constexpr int kPieces = Tile<W>::kPieces, kRows = kThreads / kPieces;
  static constexpr int kSteps = kRows > kTile ? 1 : kTile / kRows;
  const BFloat16* from_;
};

// The memory layout of a state: 8 x 8 blocks of P x N, the blocks row by row, each 128 bytes.
template <int P, int N, int kThreads>
__device__ __forceinline__ void load_state(uint32_t to, const BFloat16* from, int thread) {
  constexpr int kCopies = P * N / 8;
#pragma unroll
  for (int step = 0; step < (kCopies + kThreads - 1) / kThreads; ++step) {
    const int i = step * kThreads + thread;
    if (kCopies % kThreads != 0 && i >= kCopies) break;
    copy_async(to + i * 16, from + i * 8, true);
  }
}

// The block on the diagonal of a tile's matrix, as a warp holds it: entry 4 t + e of a lane is row
// g + 8 (e / 2) and column 8 t + 2 c + e % 2. Bits say which entries belong to a direction: those
// whose column is at most (at least) the row less (plus) the shift.
struct DiagonalBlock {
  uint32_t bits[2];
  bool here;  // whether this lane has entries on the diagonal: (0, odd) and (1, 2 + odd)
  int odd;

  __device__ DiagonalBlock(int lane, int shift, const bool (&on)[2], bool transposed) {
    const int g = lane >> 2, c = lane & 3;
    bits[0] = bits[1] = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int first = g + 8 * (i % 4 / 2), second = 8 * (i / 4) + 2 * c + i % 2;
      const int row = transposed ? second : first, column = transposed ? first : second;
      if (on[0] && column <= row - shift) bits[0] |= 1u << i;
      if (on[1] && column >= row + shift) bits[1] |= 1u << i;
    }
    here = g / 2 == c;
    odd = g & 1;
  }
  __device__ __forceinline__ bool in(int d, int t, int e) const {
    return bits[d] >> (4 * t + e) & 1;
  }
  // Adds to the lane's two entries on the diagonal; only if `here`.
  __device__ __forceinline__ void add(float (&m)[2][4], float v0, float v1) const {
    m[0][0] += odd ? 0.0f : v0;
    m[0][1] += odd ? v0 : 0.0f;
    m[1][2] += odd ? 0.0f : v1;
    m[1][3] += odd ? v1 : 0.0f;
  }
};

// c . b of a warp's 16 rows of a tile as 16 x 16 blocks, packed as operands A. The diagonal
// block is handled separately: unrolled, its long code would appear eight times.
// add(sum, d, k) adds block k of direction d. The forward direction has the columns before the
// rows; transposed, those after them.
template <bool kTransposed, typename Add>
__device__ __forceinline__ void pack_products(const DiagonalBlock& diagonal, int warp,
                                              const Add& add, uint32_t (&products)[kTile / 16][4],
                                              uint32_t (&diagonal_products)[4]) {
#pragma unroll
  for (int k = 0; k < kTile / 16; ++k) {
    float sum[2][4] = {};
    const bool forward = kTransposed ? k > warp : k < warp;
    if (k != warp) add(sum, forward ? 0 : 1, k);
    products[k][0] = pack(sum[0][0], sum[0][1]);
    products[k][1] = pack(sum[0][2], sum[0][3]);
    products[k][2] = pack(sum[1][0], sum[1][1]);
    products[k][3] = pack(sum[1][2], sum[1][3]);
  }
  float forward[2][4] = {}, backward[2][4] = {};
  add(forward, 0, warp);
  add(backward, 1, warp);
#pragma unroll
  for (int t = 0; t < 2; ++t)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      forward[t][e] = diagonal.in(0, t, e)   ? forward[t][e]
                      : diagonal.in(1, t, e) ? backward[t][e]
                                             : 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    diagonal_products[i] = pack(forward[i / 2][i % 2 * 2], forward[i / 2][i % 2 * 2 + 1]);
}

// delta of a row plus the diagonal, loaded before they are needed: what is computed with a value
// waits for its load.
class LoadedDelta {
 public:
  __device__ __forceinline__ void load(const ScanInputs<BFloat16>& in, int head, const Span& s,
                                       int r) {
    diagonal_ = 0;
    bits_ = 0;
    if (r >= s.rows) return;
    if (in.diagonal != nullptr) diagonal_ = in.diagonal[head];
    if (in.delta.data == nullptr) return;
    const int64_t at = (s.begin + r) * in.delta.stride + head;
    bits_ = in.delta_is_float ? static_cast<const uint32_t*>(in.delta.data)[at]
                              : static_cast<const uint16_t*>(in.delta.data)[at];
  }
  __device__ __forceinline__ float value(bool is_float) const {
    return diagonal_ + __uint_as_float(is_float ? bits_ : bits_ << 16);
  }

 private:
  float diagonal_;
  uint32_t bits_;
};

// acc (16 x P) += rows (16 x N, of a tile in shared memory, each scaled) state^T (N x P).
template <int P, int N>
__device__ __forceinline__ void add_state_product(float (&acc)[P / 8][4], uint32_t rows,
                                                  int first_row, float scale0, float scale1,
                                                  uint32_t state, int lane) {
  constexpr int kSteps = N / 16;
  const uint32_t pair0 = pack(scale0, scale0), pair1 = pack(scale1, scale1);
  uint32_t a[kSteps][4];
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    Tile<N>::a(a[k], rows, first_row, 2 * k, lane);
#pragma unroll
    for (int i = 0; i < 4; ++i) a[k][i] = multiply_pair(a[k][i], i % 2 == 0 ? pair0 : pair1);
    if constexpr (kWarpgroups) {
      begin_products();
      add_product_with_state<P, N>(acc, a[k], state, k);
      wait_for_products<1>();
    }
  }
  if constexpr (!kWarpgroups) {
    // Blocks 4 q .. 4 q + 3: two steps of one column of P / 8, or both columns when N is 16.
#pragma unroll
    for (int q = 0; q < P / 8 * (N / 8) / 4; ++q) {
      uint32_t b[4];
      load_matrices(b, state + (q * 32 + lane) * 16);
      if constexpr (kSteps == 1) {
        multiply(acc[2 * q], a[0], b[0], b[1]);
        multiply(acc[2 * q + 1], a[0], b[2], b[3]);
      } else {
        const int column = q / (kSteps / 2), k = q % (kSteps / 2) * 2;
        multiply(acc[column], a[k], b[0], b[1]);
        multiply(acc[column], a[k + 1], b[2], b[3]);
      }
    }
  }
}

// Stores rows first .. first + 15 of (rows, P), which a warp holds as sums of products, to global
// memory if they are in the window. They pass through the same rows of a tile in shared memory,
// which no other warp reads. A lane keeps few addresses: the others differ by constants.
template <int P>
class RowStores {
 public:
  // to: where the tile's row 0 goes.
  __device__ __forceinline__ RowStores(BFloat16* to, int64_t row_stride, int first, int lane)
      : to_(to + (first + lane / kPieces) * row_stride + lane % kPieces * 8) {}

  // Records in `seen` values that are not finite.
  __device__ __forceinline__ void store(const float (&acc)[P / 8][4], uint32_t tile, int first,
                                        int column, int64_t row_stride, const Window& window,
                                        int lane, uint32_t& seen) const {
    const uint32_t mine = tile + Tile<P>::pair(first + (lane >> 2), 2 * (lane & 3));
#pragma unroll
    for (int j = 0; j < P / 8; ++j) {
      const uint32_t upper = pack(acc[j][0], acc[j][1]), lower = pack(acc[j][2], acc[j][3]);
      // The permutation of a row's pieces is an exclusive or, and rows 8 apart have the same.
      store_shared(mine ^ (j * 16), upper);
      store_shared((mine ^ (j * 16)) + Tile<P>::bytes(8), lower);
      note(seen, upper);
      note(seen, lower);
    }
    __syncwarp();
    const int row = first + lane / kPieces;
    const uint32_t line = tile + Tile<P>::offset(row, lane % kPieces);
    BFloat16* to = to_ + column;
#pragma unroll
    for (int i = 0; i < 16 / kStep; ++i) {
      // Rows kStep apart: the permutation differs by a constant.
      const uint32_t turn = P == 64 && i % 2 == 1 ? 64 : 0;
      if (window.has(row + i * kStep))
        store_global(to, load_shared((line ^ turn) + Tile<P>::bytes(i * kStep)));
      to += kStep * row_stride;
    }
  }

 private:
  static constexpr int kPieces = Tile<P>::kPieces, kStep = 32 / kPieces;
  BFloat16* to_;
};

}  // namespace hydramix::cuda
