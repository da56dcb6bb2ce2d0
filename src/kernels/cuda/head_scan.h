// SPDX-License-Identifier: Apache-2.0
// The scan (scan.h) in one direction where every head has its own b and c and decays have no
// gradients, as in retention (Sun et al. 2023, Retentive Network). With sums of logs of decays s_t
// and shift = 0, per head and sequence,
//
//   M_ij = (c_i . b_j) exp(s_i - s_j) dt_j for j <= i,    y = (M + D) x
//
// Nothing is shared by heads and no sum runs over them, so one block computes all gradients of a
// tile and a head from one copy of x, b, c and dy, and writes them once.
//
// Notation, tiles, memory and what happens to values that are not finite are those of scan.h. Every
// sum has a fixed order.
#pragma once

#include "kernels/cuda/scan.h"

namespace hydramix::cuda {

// Whether there are kernels for these sizes: one direction, shift 0, G = H, P and N 32 or 64. They
// need no more shared memory than every GPU since Ampere has.
bool head_scan_fits(const ScanShape& shape);

// Bytes of ScanMemory.
std::size_t head_scan_saved_bytes(const ScanShape& shape, const ScanLayout& layout);
std::size_t head_scan_forward_bytes(const ScanShape& shape, const ScanLayout& layout);
std::size_t head_scan_backward_bytes(const ScanShape& shape, const ScanLayout& layout);

// Alignment as in scan.h. There is no delta. A backward pass may follow only with `gradients`. It
// computes the gradients of x, b and c, all of which must be wanted, and no others.
cudaError_t head_scan_forward(const ScanForward<__nv_bfloat16>& p, const ScanLayout& layout,
                              const ScanMemory& memory, bool gradients, cudaStream_t stream,
                              const PassObserver& passed = {});
cudaError_t head_scan_backward(const ScanBackward<__nv_bfloat16>& p, const ScanLayout& layout,
                               const ScanMemory& memory, cudaStream_t stream,
                               const PassObserver& passed = {});

}  // namespace hydramix::cuda
