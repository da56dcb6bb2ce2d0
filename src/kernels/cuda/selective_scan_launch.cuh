// SPDX-License-Identifier: Apache-2.0
// The launchers of the passes of the selective scan, which several files define.
#pragma once

#include "kernels/cuda/selective_scan_parts.cuh"

namespace hydramix::cuda::selective {

// `wide`: the rows of x, dt and y are read and written 16 bytes at a time.
template <int Q, typename S>
cudaError_t launch_forward(const Arguments<S>& p, bool wide, cudaStream_t stream);
template <int Q, typename S>
cudaError_t launch_backward(const Arguments<S>& p, bool wide, cudaStream_t stream);

// Replaces what each piece adds to the state (kBack: to its gradient, from the last piece to the
// first) by what the piece starts from.
template <bool kBack>
cudaError_t launch_carry(int pieces, int C, int N, const float* A, const float* through,
                         float* carried, cudaStream_t stream);

}  // namespace hydramix::cuda::selective
