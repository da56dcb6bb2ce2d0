// SPDX-License-Identifier: Apache-2.0
// The quasiseparable scan of scan.h without tensor cores: any sizes (H a multiple of G), either
// storage type, any alignment, shift 0 or 1 with one direction or both, products and sums in
// float32. It is used where the kernels for tensor cores do not fit, and is as exact as float32
// allows: sums of decays are kept in float64.
//
// Layouts are those of scan.h; `segment` and `carries` are not used. A is at most zero. Every sum
// has a fixed order: the same call gives the same bits.
#pragma once

#include "kernels/cuda/scan.h"

namespace hydramix::cuda {

// Bytes of ScanMemory.
std::size_t plain_scan_saved_bytes(const ScanShape& shape, const ScanLayout& layout);
std::size_t plain_scan_forward_bytes(const ScanShape& shape, const ScanLayout& layout);
std::size_t plain_scan_backward_bytes(const ScanShape& shape, const ScanLayout& layout);

template <typename S>
cudaError_t plain_scan_forward(const ScanForward<S>& p, const ScanLayout& layout,
                               const ScanMemory& memory, cudaStream_t stream);
template <typename S>
cudaError_t plain_scan_backward(const ScanBackward<S>& p, const ScanLayout& layout,
                                const ScanMemory& memory, cudaStream_t stream);

}  // namespace hydramix::cuda
