// SPDX-License-Identifier: Apache-2.0
// The gradients of the gated scan. A is the matrix of a window, dA = dy x^T its gradient, w_ij the
// decay from j to i, h the state at the start of the window and d the gradient of that at its end:
//
//   dx_j = sum_i A_ij dy_i + d^T (k_j w_end,j)
//   dq_i = sum_j dA_ij w_ij k_j + w_i,start (h dy_i)
//   dk_j = sum_i dA_ij w_ij q_i + w_end,j (d x_j)
//   dg_t = the sum of all terms q_i w_ij k_j dA_ij with j < t <= i
//
// For dg, a term between two tokens of the window is added at i and subtracted at j, and these are
// summed over all positions from t on. Both times it is a product of the same rounded numbers, so
// those with j >= t cancel but for errors of float32. Terms between the window and others
// are added where they belong: with h at all t <= i, with d at all t > j, with both at all t.
//
// A block computes a window of a head. Products leave 16 x 64 sums in the registers of a warp,
// which pass through shared memory to the lanes that own their keys.
//
// Bytes at n tokens and H heads: n H (16 N + 6 P) with float gates, and n H N P / 16 for the
// states.
#include "kernels/cuda/gated_scan_launch.cuh"

namespace hydramix::cuda::gated {
namespace {

template <int N, int P>
struct GradientPlan {
  // A row of 64 sums is followed by 8 unused ones, so that rows begin in different banks.
  static constexpr int kPassing = 16 * 72 * 4;
  static constexpr int kX = Operands<N, P>::kBytes, kDy = kX + Tile<P>::bytes(kWindow);
  static constexpr int kState = kDy + Tile<P>::bytes(kWindow);
  static constexpr int kDstate = kState + Tile<P>::bytes(N);
  static constexpr int kSums = kDstate + Tile<P>::bytes(N);
  static constexpr int kBytes = kSums + Sizes<N, P>::kWarps * kPassing;
};

// Sums of a warp, from the layout of products (16 x W) to lanes that own two columns.
template <int W>
class Passing {
 public:
  __device__ __forceinline__ Passing(float* memory, int lane)
      : memory_(memory), lane_(lane), column_(2 * lane % W) {}
  __device__ __forceinline__ void put(const float (&acc)[W / 8][4]) const {
    __syncwarp();
    float* to = memory_ + (lane_ >> 2) * kRow + 2 * (lane_ & 3);
#pragma unroll
    for (int j = 0; j < W / 8; ++j) {
      *reinterpret_cast<float2*>(to + 8 * j) = make_float2(acc[j][0], acc[j][1]);
      *reinterpret_cast<float2*>(to + 8 * kRow + 8 * j) = make_float2(acc[j][2], acc[j][3]);
    }
    __syncwarp();
  }
  __device__ __forceinline__ float2 at(int t) const {
    return *reinterpret_cast<const float2*>(memory_ + t * kRow + column_);
  }

 private:
  static constexpr int kRow = 72;
  float* memory_;
  int lane_, column_;
};

template <int kTiles>
__device__ __forceinline__ void clear(float (&acc)[kTiles][4]) {
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) acc[j][e] = 0;
}

// Sums that a lane forms for its two keys at the 16 positions of its block.
struct Gathered {
  float2 dq[kBlock], dk[kBlock];
  float2 terms[kBlock];  // of dg, to be summed over all positions from t on
  float2 leaving;        // of dg, at all positions after the block; subtracted in `terms`
};

// Which tiles and positions a block works with; kMirror: for dk instead of dq.
template <int N, int P>
struct GradientBlock {
  using Z = Sizes<N, P>;
  static constexpr int W = Z::kKeys;
  static constexpr int kTiles = W / 8;
  const Operands<N, P>& operands;
  uint32_t x, dy, state, dstate;
  int block, blocks, part, column, lane;
  Passing<W> passing;

  __device__ __forceinline__ float2 operand(uint32_t tile, int t) const {
    return unpack(load_shared_word(tile + Tile<N>::pair(block * kBlock + t, column)));
  }
  __device__ __forceinline__ int piece() const { return part * W / 8; }

  // Terms with the state (kMirror: its gradient) and with other blocks.
  template <bool kMirror>
  __device__ __forceinline__ void add_others(const float2 (&g)[kBlock], bool has_state,
                                             Gathered& to) const {
    const uint32_t own = kMirror ? x : dy, other = kMirror ? dy : x;
    const uint32_t own_keys = kMirror ? operands.k : operands.q;
    const uint32_t other_keys = kMirror ? operands.q : operands.k;
    const auto gather = [&](const float2& factor, bool leaves) {
      const auto one = [&](int t, const float2& log) {
        const float2 v = product(passing.at(t), factor);
        const float2 term = product(operand(own_keys, t), v);
        if constexpr (kMirror) {
          add_product(to.dk[t], powers(log), v);
          to.terms[t].x -= term.x, to.terms[t].y -= term.y;
          if (leaves) add(to.leaving, term);
        } else {
          add_product(to.dq[t], powers(log), v);
          add(to.terms[t], term);
        }
      };
      if constexpr (kMirror)
        for_lower<kBlock>(g, 0, one);
      else
        for_upper<kBlock>(g, 0, one);
    };
    float acc[kTiles][4];
    if (has_state) {
      clear(acc);
      const uint32_t tile = kMirror ? dstate : state;
#pragma unroll
      for (int k = 0; k < P / 16; ++k) {
        uint32_t m[4];
        Tile<P>::a(m, own, block * kBlock, 2 * k, lane);
#pragma unroll
        for (int j = 0; j < kTiles; j += 2) {
          uint32_t b[4];
          Tile<P>::b_of_rows(b, tile, part * W + 8 * j, 2 * k, lane);
          multiply(acc[j], m, b[0], b[1]);
          multiply(acc[j + 1], m, b[2], b[3]);
        }
      }
      passing.put(acc);
      float2 log = make_float2(0, 0);
      for (int b = kMirror ? block + 1 : 0; b < (kMirror ? blocks : block); ++b)
        add(log, *reinterpret_cast<const float2*>(&operands.totals[b][column]));
      gather(powers(log), kMirror);
    }
    if (kMirror ? block + 1 >= blocks : block == 0) return;
    clear(acc);
    // Add blocks from the farthest to the nearest; each decays the sum so far.
#pragma unroll 1
    for (int at = kMirror ? blocks - 1 : 0; at != block; at += kMirror ? -1 : 1) {
      const float* totals = operands.totals[at] + part * W + 2 * (lane & 3);
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const float2 factor = powers(*reinterpret_cast<const float2*>(totals + 8 * j));
        acc[j][0] *= factor.x, acc[j][1] *= factor.y, acc[j][2] *= factor.x, acc[j][3] *= factor.y;
      }
      float sum[2][4] = {};
      add_dots<P>(sum, own, block * kBlock, other, at * kBlock, lane);
      uint32_t matrix[4];
      pack_matrix(matrix, sum);
      add_mixed<N>(acc, matrix, other_keys, at * kBlock, piece(), lane);
    }
    passing.put(acc);
    gather(make_float2(1, 1), false);
  }

  // Terms within the block. At each level the products for dq of the upper and dk of the lower
  // positions are those of one symmetric matrix. dots: the diagonal of dA.
  __device__ __forceinline__ void add_inside(const float2 (&g)[kBlock], float (&dots)[kBlock],
                                             Gathered& to) const {
    uint32_t upper[4], lower[4];  // dA, and transposed
    {
      float sum[2][4] = {}, transposed[2][4] = {};
      add_dots<P>(sum, dy, block * kBlock, x, block * kBlock, lane);
      add_dots<P>(transposed, x, block * kBlock, dy, block * kBlock, lane);
      pack_matrix(upper, sum);
      pack_matrix(lower, transposed);
    }
    for_levels([&](auto level) {
      const uint32_t tile = operands.levels + level * Operands<N, P>::kTile;
      uint32_t matrix[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Entry first(i / 2, i % 2 * 2, lane), second(i / 2, i % 2 * 2 + 1, lane);
        matrix[i] =
            (first.row & 8 >> level ? upper[i] : lower[i]) &
            ((first.in_level(level) ? 0xffffu : 0u) | (second.in_level(level) ? 0xffff0000u : 0u));
      }
      float acc[kTiles][4];
      clear(acc);
      add_mixed<N>(acc, matrix, tile, block * kBlock, piece(), lane);
      passing.put(acc);
      for_halves<level>(
          g,
          [&](int t, const float2& log) {
            const float2 v = passing.at(t), term = product(operand(tile, t), v);
            add_product(to.dk[t], powers(log), v);
            to.terms[t].x -= term.x, to.terms[t].y -= term.y;
          },
          [&](int t, const float2& log) {
            const float2 v = passing.at(t);
            add_product(to.dq[t], powers(log), v);
            add_product(to.terms[t], operand(tile, t), v);
          });
    });
#pragma unroll
    for (int t = 0; t < kBlock; ++t) {
      // Entry (t, t) is in row t % 8 of the lanes, and there in columns 2 c and 2 c + 1.
      const uint32_t two = __shfl_sync(0xffffffffu, upper[t / 8 * 3], t % 8 * 4 + t % 8 / 2);
      dots[t] = t % 2 == 0 ? low(two) : high(two);
    }
  }
};

template <int N, int P>
__global__ void __launch_bounds__(Sizes<N, P>::kThreads) gradient_kernel(const Arguments a) {
  using Z = Sizes<N, P>;
  using Plan = GradientPlan<N, P>;
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ __align__(16) float totals[kBlocks][N], diagonal[Z::kParts][kWindow];
  __shared__ __align__(16) float inner[kBlocks][N], leaving[kBlocks][N], crossing[N];  // of dg

  const int window = blockIdx.x / a.H, head = blockIdx.x % a.H;
  const int end = min((window + 1) * kWindow, a.n);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int block = warp % kBlocks, part = warp / kBlocks;
  const int column = part * Z::kKeys + 2 * lane % Z::kKeys, key = head * N + column;
  const uint32_t base = shared_address(shared);
  const Operands<N, P> operands(base, totals, diagonal);
  const Passing<Z::kKeys> passing(
      reinterpret_cast<float*>(shared + Plan::kSums + warp * Plan::kPassing), lane);

  for (int first = window * kWindow; first < end;) {
    const Piece piece = piece_at(a, first, end);
    const Rows& rows = piece.rows;
    first += rows.high;
    start_copies<P, Z::kThreads>(base + Plan::kX, a, a.x, head, rows);
    start_copies<P, Z::kThreads>(base + Plan::kDy, a, a.dy, head, rows);
    const int64_t at_state = (int64_t{window} * a.H + head) * (N * P);
    if (piece.entered)
      start_state_copies<N, P, Z::kThreads>(base + Plan::kState, a.states + at_state);
    if (piece.left)
      start_state_copies<N, P, Z::kThreads>(base + Plan::kDstate, a.dstates + at_state);
    commit_copies();
    StoredGates stored_gates;
    float2 g[kBlock];
    {
      uint32_t q[kBlock], k[kBlock];
      load_keys(a, a.q, rows, block, key, q);
      load_keys(a, a.k, rows, block, key, k);
      stored_gates.load(a, rows, block, key);
      stored_gates.logs(a, g);
      operands.fill(g, q, k, block, part, column, lane);
    }
    wait_copies<0>();
    __syncthreads();

    const int blocks = ceil_div(rows.high, kBlock);
    const bool here = block < blocks;
    if (here) {
      float dx[Z::kValues / 8][4];
      mix<N, P, true>(dx, operands, block, blocks, part, base + Plan::kDy, base + Plan::kDstate,
                      piece.left, lane);
      store_values(a.dx, a, dx, rows, block, head * P + part * Z::kValues, lane);
    }
    Gathered sums{};
    if (here) {
      const GradientBlock<N, P> work{operands,
                                     base + Plan::kX,
                                     base + Plan::kDy,
                                     base + Plan::kState,
                                     base + Plan::kDstate,
                                     block,
                                     blocks,
                                     part,
                                     column,
                                     lane,
                                     passing};
      work.template add_others<false>(g, piece.entered, sums);
      work.template add_others<true>(g, piece.left, sums);
      float dots[kBlock];
      work.add_inside(g, dots, sums);
      uint32_t keys[kBlock];
      // The terms i = j have no decay.
      load_keys(a, a.k, rows, block, key, keys);
#pragma unroll
      for (int t = 0; t < kBlock; ++t)
        add_product(sums.dq[t], make_float2(dots[t], dots[t]), unpack(keys[t]));
      load_keys(a, a.q, rows, block, key, keys);
#pragma unroll
      for (int t = 0; t < kBlock; ++t)
        add_product(sums.dk[t], make_float2(dots[t], dots[t]), unpack(keys[t]));
      store_keys(a, a.dq, rows, block, key, sums.dq);
      store_keys(a, a.dk, rows, block, key, sums.dk);
    }
    float2 sum = make_float2(0, 0);
#pragma unroll
    for (int t = kBlock - 1; t >= 0; --t) {
      add(sum, sums.terms[t]);
      sums.terms[t] = sum;
    }
    add(sum, sums.leaving);
    *reinterpret_cast<float2*>(&inner[block][column]) = sum;
    *reinterpret_cast<float2*>(&leaving[block][column]) = sums.leaving;
    if (const int n = threadIdx.x; n < N) {
      float dot = 0, log = 0;
      if (piece.entered && piece.left) {
        for (int b = 0; b < blocks; ++b) log += totals[b][n];
#pragma unroll 2
        for (int i = 0; i < P / 8; ++i) {
          const uint4 h = load_shared(base + Plan::kState + Tile<P>::offset(n, i));
          const uint4 d = load_shared(base + Plan::kDstate + Tile<P>::offset(n, i));
          dot = fmaf(low(h.x), low(d.x), fmaf(high(h.x), high(d.x), dot));
          dot = fmaf(low(h.y), low(d.y), fmaf(high(h.y), high(d.y), dot));
          dot = fmaf(low(h.z), low(d.z), fmaf(high(h.z), high(d.z), dot));
          dot = fmaf(low(h.w), low(d.w), fmaf(high(h.w), high(d.w), dot));
        }
      }
      crossing[n] = dot * power_of_two(log);
    }
    __syncthreads();  // all have read the tiles: the next piece may overwrite them
    if (!here) continue;
    float2 rest = *reinterpret_cast<const float2*>(&crossing[column]);
    for (int b = 0; b < blocks; ++b) {
      if (b <= block) add(rest, *reinterpret_cast<const float2*>(&leaving[b][column]));
      if (b > block) add(rest, *reinterpret_cast<const float2*>(&inner[b][column]));
    }
#pragma unroll
    for (int t = 0; t < kBlock; ++t) add(sums.terms[t], rest);
    if (a.float_gates)
      Places<float>(a, static_cast<float*>(a.dg.data), a.dg.stride, rows, block, key)
          .visit(rows, block,
                 [&](int t, float* at) { *reinterpret_cast<float2*>(at) = sums.terms[t]; });
    else
      store_keys(a, {static_cast<BFloat16*>(a.dg.data), a.dg.stride}, rows, block, key, sums.terms);
  }
}

}  // namespace

template <int N, int P>
int gradient_shared() {
  // Plus the arrays of floats.
  return GradientPlan<N, P>::kBytes + 4 * (3 * kBlocks * N + N + Sizes<N, P>::kParts * kWindow);
}

template <int N, int P>
cudaError_t launch_gradient(const Arguments& a, cudaStream_t stream) {
  constexpr int kBytes = GradientPlan<N, P>::kBytes;
  const auto kernel = gradient_kernel<N, P>;
  if (const auto e = allow_dynamic_shared(kernel, kBytes); e != cudaSuccess) return e;
  kernel<<<ceil_div(a.n, kWindow) * a.H, Sizes<N, P>::kThreads, kBytes, stream>>>(a);
  return cudaGetLastError();
}

#define HYDRAMIX_GATED(N, P)            \
  template int gradient_shared<N, P>(); \
  template cudaError_t launch_gradient<N, P>(const Arguments&, cudaStream_t);
HYDRAMIX_GATED_SIZES(HYDRAMIX_GATED)

}  // namespace hydramix::cuda::gated
