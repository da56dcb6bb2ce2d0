// SPDX-License-Identifier: Apache-2.0
// Shared by the passes of the plain scan. Notation, for one direction, one head and one tile (all
// logarithms to base 2; token j - 1 is the one before j in the order of the direction):
//
//   sum_t    log of the decay from the tile's border through token t: a_first + ... + a_t; of a
//            sequence that begins in the tile, kForget for each token before it, and its own decays
//   reach_i  log of the decay from the border to the state that row i reads: with a shift
//            sum_{i-1}, 0 at the border itself; without one sum_i
//   source(i)  the token whose c row i uses: i - 1 with a shift, i without
//   far      the token at the other border
//
//   M_ij = (c_source(i) . b_j) 2^(reach_i - sum_j) dt_j
//   state' = 2^sum_far state + sum_j 2^(sum_far - sum_j) dt_j x_j b_j^T
//   y_i = sum_j M_ij x_j + 2^reach_i state c_source(i)
//
// M of both directions is one matrix, lower triangle forward, upper backward; without a shift both
// also have a diagonal, which is kept apart. A sequence begins with a decay of 2^kForget = 0 and
// with an empty row of c. All exponents are at most zero; their differences keep float64's digits.
#pragma once

#include <utility>

#include "kernels/cuda/plain_scan.h"
#include "kernels/cuda/scan_common.cuh"

namespace hydramix::cuda::plain {

constexpr int kThreads = 256;
constexpr int kBlock = 64;  // rows and columns of a block's product
constexpr int kDepth = 16;  // terms of a product that are in shared memory at a time
constexpr int kBlocks = kTile / kBlock;
constexpr int kSquare = kTile * kTile;
static_assert(kBlocks == 2, "halves of tiles are numbered 0 and 1");

// The strongest decay: 2^kForget is 0 even in float64, and a sum of kTile of them is exact to
// 2^-35.
constexpr double kForget = -1100;
constexpr double kLog2e = 1.4426950408889634074;

// Saved for the backward pass: sums, steps, and the decay of a state over each tile.
struct Steps {
  double* sums;         // (2, H, n)
  float* dts;           // (2, H, n)
  double* tile_decays;  // (2, tiles, H) 2^sum_far
  int H, tiles;
  int64_t n;

  __device__ int64_t at(int d, int h) const { return (static_cast<int64_t>(d) * H + h) * n; }
  __device__ double* sums_of(int d, int h) const { return sums + at(d, h); }
  __device__ float* dts_of(int d, int h) const { return dts + at(d, h); }
  __device__ double& tile_decay(int d, int tile, int h) const {
    return tile_decays[(static_cast<int64_t>(d) * tiles + tile) * H + h];
  }
};

// c . b of every tile and group.
struct Products {
  float* matrices;  // (tiles, G, kTile, kTile) at [i, j], both directions in one
  float* diagonal;  // (2, G, n) without a shift only

  __device__ float* matrix(int G, int tile, int g) const {
    return matrices + (static_cast<int64_t>(tile) * G + g) * kSquare;
  }
};

// Intermediate sums of the backward pass. With terms dM_ij M_ij / dt_j:
struct Gathered {
  double* reaches;      // (2, kBlocks, H, n) sums over j, times dt_j; of near and far blocks of i
  double* entries;      // (2, kBlocks, H, n) sums over i; likewise
  float* neighbours;    // (2, H, n) the term of j = source(i) at j; with a shift only
  float* diagonal;      // (H, n) dM_jj
  float* dots;          // (4, chunks of N, H, n) the same through states: of entries, then reaches
  double* tile_decays;  // (2, tiles, H) of the decay over a tile
  float* matrices;      // (runs, tiles, G, kTile, kTile) of c . b, by runs of heads
  int runs;
};

// For row r < s.rows of a tile.
__device__ __forceinline__ double reach_of(const double* sums, int d, int shift, const Span& s,
                                           int r) {
  if (shift == 0) return sums[s.begin + r];
  if (d == 0) return r == 0 ? 0.0 : sums[s.begin + r - 1];
  return r == s.rows - 1 ? 0.0 : sums[s.begin + r + 1];
}

// The token whose c token t uses in direction d; -1 if none.
__device__ __forceinline__ int source(const ScanLayout& layout, int shift, int d, int t) {
  if (shift == 0) return t;
  return starts(layout, d, t) ? -1 : d == 0 ? t - 1 : t + 1;
}

// The rows of a tile that are of the sequence of row r.
__device__ __forceinline__ Window sequence_rows(const ScanLayout& layout, const Span& s, int r) {
  const int2 bounds = layout.bounds[s.begin + r];
  return {max(bounds.x - s.begin, 0), min(bounds.y - s.begin, s.rows)};
}

// A tile of several sequences is one matrix, with zeros between different sequences. If a value of
// one sequence is not finite, 0 times that value is NaN in the rows of all. So a product that is
// not finite is repeated for one sequence at a time. Returns whether there is more to do, and sets
// `window`, which is all of the tile at first, to its rows. Every thread calls it.
__device__ __forceinline__ bool next_window(Window& window, const ScanLayout& layout, const Span& s,
                                            const float (&sums)[4][4]) {
  if (window.high - window.low == s.rows) {
    float seen = 0;
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) seen += 0.0f * sums[r][c];
    if (!__syncthreads_or(seen != seen) || sequence_rows(layout, s, 0).high == s.rows) return false;
    window.high = 0;
  }
  if (window.high == s.rows) return false;
  window = sequence_rows(layout, s, window.high);
  return true;
}

__device__ __forceinline__ float decay(double log) { return exp2f(static_cast<float>(log)); }

// A float64 sum as two floats. Differences are exact to float32, without float64 arithmetic, which
// is slow on many GPUs.
struct Log {
  float high, low;
};
__device__ __forceinline__ Log split(double log) {
  const float high = static_cast<float>(log);
  return {high, static_cast<float>(log - high)};
}
__device__ __forceinline__ float decay(const Log& to, const Log& from) {
  return exp2f((to.high - from.high) + (to.low - from.low));
}

// Two pieces of operands, term by term.
struct alignas(16) Stage {
  static constexpr int kRow = kBlock + 4;  // fewer bank conflicts, still aligned
  float a[kDepth][kRow], b[kDepth][kRow];
};

// One operand of a product: load(row, term) reads memory early; value(loaded, row, term) is the
// number to multiply, computed once the load has finished. kAlong: a row's terms follow each other
// in memory; else rows do.
template <bool kAlong, typename Load, typename Value>
struct Operand {
  Load load;
  Value value;
};
template <bool kAlong, typename Load, typename Value>
__device__ __forceinline__ Operand<kAlong, Load, Value> operand(Load load, Value value) {
  return {load, value};
}
struct AsLoaded {
  template <typename T>
  __device__ __forceinline__ float operator()(T loaded, int, int) const {
    return widen(loaded);
  }
};
template <bool kAlong, typename Load>
__device__ __forceinline__ Operand<kAlong, Load, AsLoaded> operand(Load load) {
  return {load, {}};
}

// A thread's share of kBlock rows of an operand, terms from .. from + kDepth - 1 of `depth`.
template <typename Of>
class Share;
template <bool kAlong, typename Load, typename Value>
class Share<Operand<kAlong, Load, Value>> {
 public:
  __device__ Share(const Operand<kAlong, Load, Value>& from, int depth)
      : operand_(from), depth_(depth) {}
  __device__ __forceinline__ void fetch(int from) {
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      loaded_[e] = from + term(e) < depth_ ? operand_.load(row(e), from + term(e)) : Loaded();
  }
  __device__ __forceinline__ void put(int from, float (&to)[kDepth][Stage::kRow]) const {
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      to[term(e)][row(e)] =
          from + term(e) < depth_ ? operand_.value(loaded_[e], row(e), from + term(e)) : 0.0f;
  }

 private:
  using Loaded = decltype(std::declval<Load>()(0, 0));
  static constexpr int kEach = kBlock * kDepth / kThreads;
  __device__ static int row(int e) {
    return kAlong ? threadIdx.x / kDepth + e * (kThreads / kDepth) : threadIdx.x % kBlock;
  }
  __device__ static int term(int e) {
    return kAlong ? threadIdx.x % kDepth : threadIdx.x / kBlock + e * (kThreads / kBlock);
  }
  const Operand<kAlong, Load, Value>& operand_;
  const int depth_;
  Loaded loaded_[kEach];
};

// A thread has rows own_row(0) .. own_row(3) and columns own_column(0) .. own_column(3) of a
// product; the 16 threads of half a warp have the same rows.
__device__ __forceinline__ int own_row(int r) { return threadIdx.x / 16 * 4 + r; }
__device__ __forceinline__ int own_column(int c) { return threadIdx.x % 16 * 4 + c; }

// acc[row, column] += sum over `depth` terms of a[row, term] b[column, term]. All threads of the
// block; shared memory that a and b read must have been written before a barrier.
template <typename A, typename B>
__device__ __forceinline__ void multiply(Stage (&stages)[2], int depth, const A& a, const B& b,
                                         float (&acc)[4][4]) {
  Share<A> next_a(a, depth);
  Share<B> next_b(b, depth);
  next_a.fetch(0);
  next_b.fetch(0);
  next_a.put(0, stages[0].a);
  next_b.put(0, stages[0].b);
  __syncthreads();
  for (int from = 0, now = 0; from < depth; from += kDepth, now ^= 1) {
    const bool more = from + kDepth < depth;
    if (more) {
      next_a.fetch(from + kDepth);
      next_b.fetch(from + kDepth);
    }
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      const float4 u = *reinterpret_cast<const float4*>(&stages[now].a[k][own_row(0)]);
      const float4 v = *reinterpret_cast<const float4*>(&stages[now].b[k][own_column(0)]);
      const float rows[4] = {u.x, u.y, u.z, u.w}, columns[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) acc[r][c] = fmaf(rows[r], columns[c], acc[r][c]);
    }
    if (more) {
      next_a.put(from + kDepth, stages[now ^ 1].a);
      next_b.put(from + kDepth, stages[now ^ 1].b);
    }
    __syncthreads();
  }
}

__device__ __forceinline__ void clear(float (&sums)[4][4]) {
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c) sums[r][c] = 0;
}

// Copies the sums of those rows first + own_row() of a tile that are in the window.
__device__ __forceinline__ void keep_rows(const Window& window, int first,
                                          const float (&sums)[4][4], float (&acc)[4][4]) {
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if (window.has(first + own_row(r))) acc[r][c] = sums[r][c];
}

// Stores the first `left` of four neighbouring values.
template <typename S>
__device__ __forceinline__ void store_four(S* to, const float (&values)[4], int left) {
  if (left >= 4 && reinterpret_cast<uintptr_t>(to) % (4 * sizeof(S)) == 0) {
    store<4>(to, values);
    return;
  }
#pragma unroll
  for (int c = 0; c < 4; ++c)
    if (c < left) to[c] = narrow<S>(values[c]);
}

// The sum over half a warp, in all its lanes.
template <typename T>
__device__ __forceinline__ T half_warp_sum(T v) {
#pragma unroll
  for (int step = 8; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}

template <typename S>
struct Problem {
  DeviceShape shape;
  ScanLayout layout;
  ScanInputs<S> in;
  Steps steps;
  Products products;
};

inline int chunks(int width) { return ceil_div(width, kBlock); }

// The passes, in the order of their files.

template <typename S>
cudaError_t prepare(const Problem<S>& p, cudaStream_t stream);

// c . b of all tiles.
template <typename S>
cudaError_t multiply_rows(const Problem<S>& p, cudaStream_t stream);

// States that enter tiles, (2, tiles, H, P, N); or, from dy, gradients of those that leave.
template <typename S>
cudaError_t make_states(const Problem<S>& p, bool gradient, StridedRows<const S> u, float* states,
                        cudaStream_t stream);

// y from x and states; or dx from dy and gradients of states, by the transposed matrix.
template <typename S>
cudaError_t apply(const Problem<S>& p, bool transposed, StridedRows<const S> u, const float* states,
                  StridedRows<S> to, cudaStream_t stream);

// The number of runs into which the heads of a group are cut.
int gradient_runs(const DeviceShape& shape, const ScanLayout& layout);
// Gradients of the matrices, then of b and c. Together they fill `gathered`.
template <typename S>
cudaError_t matrix_gradient(const Problem<S>& p, StridedRows<const S> dy, const Gathered& gathered,
                            cudaStream_t stream);
template <typename S>
cudaError_t row_gradient(const Problem<S>& p, StridedRows<const S> dy, const float* states,
                         const float* dstates, const Gathered& gathered,
                         const ScanGradients<S>& out, cudaStream_t stream);

// Gradients of dt and delta, and sums over tokens. totals: (3, tiles, H), scratch.
template <typename S>
cudaError_t finish(const Problem<S>& p, const Gathered& gathered, double* totals,
                   const ScanGradients<S>& out, cudaStream_t stream);

}  // namespace hydramix::cuda::plain
