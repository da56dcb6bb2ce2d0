// SPDX-License-Identifier: Apache-2.0
// The output of the gated scan. A block computes a window of a head: the matrix of the window,
// times x, plus what the state at its start gives.
//
// Bytes at n tokens and H heads: n H (8 N + 4 P) with float gates, and n H N P / 32 for the states.
#include "kernels/cuda/gated_scan_launch.cuh"

namespace hydramix::cuda::gated {
namespace {

template <int N, int P>
struct OutputPlan {
  static constexpr int kX = Operands<N, P>::kBytes, kState = kX + Tile<P>::bytes(kWindow);
  static constexpr int kBytes = kState + Tile<P>::bytes(N);
};

template <int N, int P>
__global__ void __launch_bounds__(Sizes<N, P>::kThreads) output_kernel(const Arguments a) {
  using Z = Sizes<N, P>;
  using Plan = OutputPlan<N, P>;
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ __align__(16) float totals[kBlocks][N], diagonal[Z::kParts][kWindow];

  const int window = blockIdx.x / a.H, head = blockIdx.x % a.H;
  const int end = min((window + 1) * kWindow, a.n);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int block = warp % kBlocks, part = warp / kBlocks;
  const int column = part * Z::kKeys + 2 * lane % Z::kKeys;
  const uint32_t base = shared_address(shared);
  const Operands<N, P> operands(base, totals, diagonal);

  for (int first = window * kWindow; first < end;) {
    const Piece piece = piece_at(a, first, end);
    first += piece.rows.high;
    __syncthreads();  // all have read the tiles of the piece before
    start_copies<P, Z::kThreads>(base + Plan::kX, a, a.x, head, piece.rows);
    if (piece.entered)
      start_state_copies<N, P, Z::kThreads>(base + Plan::kState,
                                            a.states + (int64_t{window} * a.H + head) * (N * P));
    commit_copies();
    {
      uint32_t q[kBlock], k[kBlock];
      StoredGates gates;
      float2 g[kBlock];
      load_keys(a, a.q, piece.rows, block, head * N + column, q);
      load_keys(a, a.k, piece.rows, block, head * N + column, k);
      gates.load(a, piece.rows, block, head * N + column);
      gates.logs(a, g);
      operands.fill(g, q, k, block, part, column, lane);
    }
    wait_copies<0>();
    __syncthreads();
    if (block * kBlock >= piece.rows.high) continue;
    float y[Z::kValues / 8][4];
    mix<N, P, false>(y, operands, block, ceil_div(piece.rows.high, kBlock), part, base + Plan::kX,
                     base + Plan::kState, piece.entered, lane);
    store_values(a.y, a, y, piece.rows, block, head * P + part * Z::kValues, lane);
  }
}

}  // namespace

template <int N, int P>
int output_shared() {
  // Plus totals and the diagonal.
  return OutputPlan<N, P>::kBytes + 4 * (kBlocks * N + Sizes<N, P>::kParts * kWindow);
}

template <int N, int P>
cudaError_t launch_output(const Arguments& a, cudaStream_t stream) {
  constexpr int kBytes = OutputPlan<N, P>::kBytes;
  const auto kernel = output_kernel<N, P>;
  if (const auto e = allow_dynamic_shared(kernel, kBytes); e != cudaSuccess) return e;
  kernel<<<ceil_div(a.n, kWindow) * a.H, Sizes<N, P>::kThreads, kBytes, stream>>>(a);
  return cudaGetLastError();
}

#define HYDRAMIX_GATED(N, P)          \
  template int output_shared<N, P>(); \
  template cudaError_t launch_output<N, P>(const Arguments&, cudaStream_t);
HYDRAMIX_GATED_SIZES(HYDRAMIX_GATED)

}  // namespace hydramix::cuda::gated
