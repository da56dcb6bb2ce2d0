// SPDX-License-Identifier: Apache-2.0
// How the passes of the scan are launched: their declarations, in the order of their files, what
// they hand to each other, and how work is cut into blocks.
#pragma once

#include "kernels/cuda/scan_parts.cuh"

namespace hydramix::cuda {

// Lets a kernel use more shared memory than the default limit.
template <typename Kernel>
inline cudaError_t allow_shared(Kernel* kernel, int bytes) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                              cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

// The number of runs into which to cut the `parts` parts of each of `blocks` units of work, so that
// `slots` blocks at a time finish soonest. Every run has an overhead of `overhead` parts.
inline int best_runs(int64_t blocks, int parts, int slots, double overhead) {
  int best = 1;
  double best_cost = 1e300;
  for (int runs = 1; runs <= parts; ++runs) {
    const int run = (parts + runs - 1) / runs;
    if ((parts + run - 1) / run != runs) continue;
    const int64_t waves = (blocks * runs + slots - 1) / slots;
    const double cost = static_cast<double>(waves) * (run + overhead);
    if (cost < best_cost * 0.999) best = runs, best_cost = cost;
  }
  return best;
}

// The number of multiprocessors of the current device. Only for decisions that change no result.
int multiprocessors();

// Calls f(Int<P>, Int<N>) for the sizes of `parts`.
template <int V>
struct Int {
  static constexpr int value = V;
};
template <typename F>
cudaError_t with_sizes(const Parts& parts, const F& f) {
  const auto with_n = [&](auto p) {
    switch (parts.N) {
      case 16:
        return f(p, Int<16>{});
      case 32:
        return f(p, Int<32>{});
      case 64:
        return f(p, Int<64>{});
      case 128:
        return f(p, Int<128>{});
      default:
        return cudaErrorInvalidValue;
    }
  };
  return parts.P == 64 ? with_n(Int<64>{}) : with_n(Int<32>{});
}

// The passes, in the order of their files.

cudaError_t scan_prepare(const DeviceShape& shape, const ScanLayout& layout,
                         const ScanInputs<BFloat16>& in, const Decays& decays, cudaStream_t stream);

// States at the borders of tiles: (2, tiles, parts, P N) bfloat16.
struct StatePass {
  bool gradient;                     // of the states, from dy and c, walking the other way
  StridedRows<const BFloat16> u;     // x, or dy
  StridedRows<const BFloat16> v[2];  // b, or c
  BFloat16* states;
  // Only where layout.carries:
  float* ends;    // (2, segments, parts, P N)
  float* totals;  // (2, segments, parts): log of the decay of a segment
  float* before;  // (2, tiles, parts): ... of the part of a segment before a tile
  // `states` are to stay without what enters their segment, which `ends` then has; a tile adds
  // 2^before of it.
  bool apart = false;
};
int states_shared(const Parts& parts);  // bytes of a block, here and below
cudaError_t scan_states(const DeviceShape& shape, const ScanLayout& layout, const Decays& decays,
                        const StatePass& pass, cudaStream_t stream);

int output_shared(const Parts& parts);
cudaError_t scan_output(const DeviceShape& shape, const ScanLayout& layout,
                        const ScanInputs<BFloat16>& in, const Decays& decays,
                        const BFloat16* states, StridedRows<BFloat16> y, cudaStream_t stream);

// Intermediate sums of the backward pass.
struct Gathered {
  // (9, parts, n): of reach and entry of either direction, and of delta; then of reach and entry
  // the part that comes through states
  float* places;
  float* shares;  // (slots, n, G, 4, N): of b and of c at the row that read it, forward, backward
  float* dots;    // (2, tiles, parts): of the decay of a whole tile
  int runs;       // slots that scan_tile_gradient fills; one more slot after them is of the states
};
__host__ __device__ inline float* place(const Gathered& g, const Parts& parts, int64_t n, int kind,
                                        int part) {
  return g.places + (static_cast<int64_t>(kind) * parts.count + part) * n;
}
int tile_gradient_runs(const DeviceShape& shape, const ScanLayout& layout);
int tile_gradient_shared(const Parts& parts);
int state_gradient_shared(const Parts& parts);
cudaError_t scan_tile_gradient(const DeviceShape& shape, const ScanLayout& layout,
                               const ScanInputs<BFloat16>& in, const Decays& decays,
                               StridedRows<const BFloat16> dy, const BFloat16* dstates,
                               const Gathered& gathered, StridedRows<BFloat16> dx,
                               cudaStream_t stream);
cudaError_t scan_state_gradient(const DeviceShape& shape, const ScanLayout& layout,
                                const ScanInputs<BFloat16>& in, const Decays& decays,
                                StridedRows<const BFloat16> dy, const BFloat16* states,
                                const BFloat16* dstates, const Gathered& gathered,
                                cudaStream_t stream);
// Gradients of b and c from their shares.
cudaError_t scan_shares(const DeviceShape& shape, const ScanLayout& layout,
                        const Gathered& gathered, const ScanGradients<BFloat16>& out,
                        cudaStream_t stream);
// Gradients of dt, A, delta and the diagonal. sums: (5, tiles, H), scratch.
cudaError_t scan_finish(const DeviceShape& shape, const ScanLayout& layout,
                        const ScanInputs<BFloat16>& in, const Decays& decays,
                        const Gathered& gathered, float* sums, const ScanGradients<BFloat16>& out,
                        cudaStream_t stream);

}  // namespace hydramix::cuda
