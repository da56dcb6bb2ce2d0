// SPDX-License-Identifier: Apache-2.0
// Gradients of head_scan.h: those of c, then of x, then of b, from one copy of all inputs in shared
// memory. The state that enters the tile is needed for the first of them only, so the gradient of
// the state that leaves it then takes its place, and arrives during that product.
//
// Floor: x, b, c and dy are read and three gradients written once, 2 (3 P + 4 N) bytes per token
// and head; with states another 2 P N / kTile values read.
#include "kernels/cuda/head_scan_parts.cuh"

namespace hydramix::cuda::heads {
namespace {

struct GradientArguments : Arguments {
  StridedRows<const BFloat16> x, b, c, dy;
  const BFloat16 *states, *dstates;  // null if no sequence is cut
  StridedRows<BFloat16> dx, db, dc;
};

template <int P, int N>
struct GradientPlan {
  static constexpr int kX = Tile<P>::bytes(kTile), kB = kX + Tile<P>::bytes(kTile),
                       kC = kB + Tile<N>::bytes(kTile), kState = kC + Tile<N>::bytes(kTile);
  static constexpr int bytes(bool states) { return kState + (states ? 2 * P * N : 0); }
};

// Starts acc = the rows of a tile times the state plus the triangle; template arguments as in the
// product.
template <bool kLater, bool kTransposed, int K, int W>
__device__ __forceinline__ void start_product(Sums<W>& acc, Operands<K>& rows, uint32_t tile,
                                              bool has_state, uint32_t state, const Logs& logs,
                                              int count, const OwnRows& own) {
  load_operands<K>(rows, tile, own);
  if (has_state) {
    float scale[2][2];
    row_scales<kLater>(scale, logs, count, own);
    set_state_product<kTransposed, K, W>(acc, rows, state, scale, own.lane);
  } else {
    clear<W>(acc);
  }
}

template <int P, int N>
__global__ void __launch_bounds__(kThreads, 3) gradient_kernel(const GradientArguments a) {
  using Plan = GradientPlan<P, N>;
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ __align__(16) Logs logs;
  __shared__ Redo redo;
  const Place at(a);
  if (at.s.rows == 0) return;
  const bool enters = a.states != nullptr && at.enters(a);
  const bool leaves = a.states != nullptr && at.leaves(a);
  redo.begin(at.s);
  const uint32_t tile_dy = shared_address(shared), tile_x = tile_dy + Plan::kX,
                 tile_b = tile_dy + Plan::kB, tile_c = tile_dy + Plan::kC,
                 state = tile_dy + Plan::kState;
  const float diagonal = a.diagonal == nullptr ? 0.0f : a.diagonal[at.head];
  const int count = at.s.rows, blocks = ceil_div(count, 16);
  do {
    const OwnRows own;
    const Window window = at.window(a, redo);
    const bool has_state = enters && window.low == 0, has_gradient = leaves && window.high == count;
    if (has_state) load_state<P, N, kThreads>(state, a.states + at.state(a) * (P * N), threadIdx.x);
    start_copies<P>(tile_dy, at.rows<P>(a, a.dy), window);
    start_copies<P>(tile_x, at.rows<P>(a, a.x), window);
    start_copies<N>(tile_b, at.rows<N>(a, a.b), window);
    commit_copies();
    start_copies<N>(tile_c, at.rows<N>(a, a.c), window);
    commit_copies();
    load_logs(logs, a, at, window);
    wait_copies<1>();
    __syncthreads();
    uint32_t seen = 0;
    {
      Operands<P> rows;
      Sums<N> acc;
      start_product</*kLater=*/false, /*kTransposed=*/false, P, N>(acc, rows, tile_dy, has_state,
                                                                   state, logs, count, own);
      if (has_gradient) {
        if (has_state) __syncthreads();  // all have read the state
        load_state<P, N, kThreads>(state, a.dstates + at.state(a) * (P * N), threadIdx.x);
        commit_copies();
      }
      add_triangle</*kLater=*/false, P, N>(acc, rows, tile_x, tile_b, logs, 0.0f, blocks, own);
      store_rows<N>(at.rows<N>(a, a.dc), acc, window, own, seen);
    }
    wait_copies<0>();
    __syncthreads();
    {
      Operands<N> rows;
      Sums<P> acc;
      start_product</*kLater=*/true, /*kTransposed=*/true, N, P>(acc, rows, tile_b, has_gradient,
                                                                 state, logs, count, own);
      add_triangle</*kLater=*/true, N, P>(acc, rows, tile_c, tile_dy, logs, diagonal, blocks, own);
      store_rows<P>(at.rows<P>(a, a.dx), acc, window, own, seen);
    }
    {
      Operands<P> rows;
      Sums<N> acc;
      start_product</*kLater=*/true, /*kTransposed=*/false, P, N>(acc, rows, tile_x, has_gradient,
                                                                  state, logs, count, own);
      add_triangle</*kLater=*/true, P, N>(acc, rows, tile_dy, tile_c, logs, 0.0f, blocks, own);
      store_rows<N>(at.rows<N>(a, a.db), acc, window, own, seen);
    }
    redo.add(seen);
  } while (redo.next(a.layout, at.s));
}

}  // namespace

cudaError_t gradient(const Arguments& a, int P, int N, const ScanInputs<BFloat16>& in,
                     StridedRows<const BFloat16> dy, const BFloat16* states,
                     const BFloat16* dstates, const ScanGradients<BFloat16>& out,
                     cudaStream_t stream) {
  const auto& direction = in.direction[a.d];
  const auto& gradients = out.direction[a.d];
  const GradientArguments arguments{{a},    in.x,    direction.b, direction.c, dy,
                                    states, dstates, out.x,       gradients.b, gradients.c};
  return with_widths(P, N, [&](auto p, auto n) {
    const auto kernel = gradient_kernel<decltype(p)::value, decltype(n)::value>;
    const int bytes =
        GradientPlan<decltype(p)::value, decltype(n)::value>::bytes(states != nullptr);
    if (const auto e = allow_shared(kernel, bytes); e != cudaSuccess) return e;
    kernel<<<a.layout.tiles * a.H, kThreads, bytes, stream>>>(arguments);
    return cudaGetLastError();
  });
}

}  // namespace hydramix::cuda::heads
