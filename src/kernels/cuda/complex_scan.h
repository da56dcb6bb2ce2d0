// SPDX-License-Identifier: Apache-2.0
// A complex recurrence with a fixed factor per channel and real input over packed sequences, on
// NVIDIA GPUs:
//
//   h_t = lambda h_{t-1} + x_t,     |lambda| <= 1
//
// Both parts of h are the output. A sequence starts from h = 0, so a value that is not finite stays
// within its sequence.
//
// The state is float64 whatever the storage: lambda rounded to float32 would turn by 6e-8 too much
// or too little at every token. A token of a channel costs four float64 multiply-adds and at least
// 6 bytes of memory traffic, and memory is the slower of the two.
//
// Launchers check only the shape. They allocate nothing and do not synchronise. Sums have an order
// that depends on the shape alone.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/recurrence_params.h"

namespace hydramix::cuda {

using kernels::ComplexScanShape;
// S is float or __nv_bfloat16.
using kernels::ComplexScanBackward;
using kernels::ComplexScanForward;

std::size_t complex_scan_forward_workspace(const ComplexScanShape& shape);  // bytes
std::size_t complex_scan_backward_workspace(const ComplexScanShape& shape);

// bounds (n): the first token of a token's sequence and one past its last.
template <typename S>
cudaError_t complex_scan_forward(const ComplexScanForward<S>& pass, const int2* bounds,
                                 cudaStream_t stream);
template <typename S>
cudaError_t complex_scan_backward(const ComplexScanBackward<S>& pass, const int2* bounds,
                                  cudaStream_t stream);

}  // namespace hydramix::cuda
