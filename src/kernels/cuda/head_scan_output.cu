// SPDX-License-Identifier: Apache-2.0
// y of head_scan.h. A block adds what was carried into its segment to the state that enters its
// tile, and keeps the sum for a backward pass.
//
// Floor: x, b and c are read and y is written once, 2 (2 P + 2 N) bytes per token and head; with
// states another P N / kTile values, read and, with carries, kept.
#include "kernels/cuda/head_scan_parts.cuh"

namespace hydramix::cuda::heads {
namespace {

struct OutputArguments : Arguments {
  StridedRows<const BFloat16> x, b, c;
  BFloat16* states;  // null if no sequence is cut
  Carries carries;
  bool keeps;
  StridedRows<BFloat16> y;
};

template <int P, int N>
struct OutputPlan {
  static constexpr int kB = Tile<N>::bytes(kTile), kC = 2 * kB, kState = kC + Tile<P>::bytes(kTile);
  static constexpr int bytes(bool states) { return kState + (states ? 2 * P * N : 0); }
};

// The state that enters the tile, into shared memory.
template <int P, int N>
__device__ __forceinline__ void load_entering(uint8_t* to, const OutputArguments& a,
                                              const Place& at) {
  const int64_t index = at.state(a);
  BFloat16* state = a.states + index * (P * N);
  const float factor = a.carries.ends == nullptr ? 0.0f : power_of_two(a.carries.before[index]);
  if (factor == 0) {
    load_state<P, N, kThreads>(shared_address(to), state, threadIdx.x);
    return;
  }
  const float* carried =
      a.carries.ends +
      ((static_cast<int64_t>(a.d) * a.layout.segments() + at.tile / a.layout.segment) * a.H +
       at.head) *
          (P * N);
#pragma unroll
  for (int step = 0; step < P * N / 8 / kThreads; ++step) {
    const int i = (step * kThreads + threadIdx.x) * 8;
    float own[8], in[8];
    load<8>(state + i, own);
    load<8>(carried + i, in);
#pragma unroll
    for (int e = 0; e < 8; ++e) own[e] += factor * in[e];
    store<8>(reinterpret_cast<BFloat16*>(to) + i, own);
    if (a.keeps) store<8>(state + i, own);
  }
}

template <int P, int N>
__global__ void __launch_bounds__(kThreads, 3) output_kernel(const OutputArguments a) {
  using Plan = OutputPlan<P, N>;
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ __align__(16) Logs logs;
  __shared__ Redo redo;
  const Place at(a);
  if (at.s.rows == 0) return;
  const bool enters = a.states != nullptr && at.enters(a);
  if (enters) load_entering<P, N>(shared + Plan::kState, a, at);
  redo.begin(at.s);
  const uint32_t tile_c = shared_address(shared), tile_b = tile_c + Plan::kB,
                 tile_x = tile_c + Plan::kC;
  const float diagonal = a.diagonal == nullptr ? 0.0f : a.diagonal[at.head];
  do {
    const OwnRows own;
    const Window window = at.window(a, redo);
    start_copies<N>(tile_c, at.rows<N>(a, a.c), window);
    start_copies<N>(tile_b, at.rows<N>(a, a.b), window);
    start_copies<P>(tile_x, at.rows<P>(a, a.x), window);
    commit_copies();
    load_logs(logs, a, at, window);
    wait_copies<0>();
    __syncthreads();
    Operands<N> rows;
    Sums<P> acc;
    load_operands<N>(rows, tile_c, own);
    if (enters && window.low == 0) {
      float scale[2][2];
      row_scales</*kLater=*/false>(scale, logs, at.s.rows, own);
      set_state_product</*kTransposed=*/true, N, P>(acc, rows, tile_c + Plan::kState, scale,
                                                    own.lane);
    } else {
      clear<P>(acc);
    }
    add_triangle</*kLater=*/false, N, P>(acc, rows, tile_b, tile_x, logs, diagonal,
                                         ceil_div(at.s.rows, 16), own);
    uint32_t seen = 0;
    store_rows<P>(at.rows<P>(a, a.y), acc, window, own, seen);
    redo.add(seen);
  } while (redo.next(a.layout, at.s));
}

}  // namespace

cudaError_t output(const Arguments& a, int P, int N, const ScanInputs<BFloat16>& in,
                   BFloat16* states, const Carries& carries, bool keeps, StridedRows<BFloat16> y,
                   cudaStream_t stream) {
  const auto& direction = in.direction[a.d];
  const OutputArguments arguments{{a}, in.x, direction.b, direction.c, states, carries, keeps, y};
  return with_widths(P, N, [&](auto p, auto n) {
    const auto kernel = output_kernel<decltype(p)::value, decltype(n)::value>;
    const int bytes = OutputPlan<decltype(p)::value, decltype(n)::value>::bytes(states != nullptr);
    if (const auto e = allow_shared(kernel, bytes); e != cudaSuccess) return e;
    kernel<<<a.layout.tiles * a.H, kThreads, bytes, stream>>>(arguments);
    return cudaGetLastError();
  });
}

}  // namespace hydramix::cuda::heads
