// SPDX-License-Identifier: Apache-2.0
// The scan of gated linear attention (Yang et al. 2024, Gated Linear Attention Transformers with
// Hardware-Efficient Training) over packed sequences, on NVIDIA GPUs. Per head, with a state h of N
// keys by P values and a gate for every key,
//
//   h_t = diag(exp(g_t)) h_{t-1} + k_t x_t^T,     y_t = h_t^T q_t,     g_t <= 0
//   y_i = sum_{j <= i} (sum_n q_in k_jn exp(g_{j+1,n} + ... + g_in)) x_j
//
// A sequence starts from h = 0, so a value that is not finite stays within its sequence. Every
// decay is the exponential of a sum of its own gates, never of a difference of sums: any gate is
// exact, also exp(g) = 0.
//
// Launchers check only the shape and the alignment. They allocate nothing and do not synchronise.
// Sums have an order that depends on the shape alone.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/recurrence_params.h"

namespace hydramix::cuda {

using kernels::GatedScanShape;

// Whether N and P are 32, 64 or 128 and a block of the current device may have enough shared memory
// for a forward pass or, with `gradients`, also for a backward pass. On Hopper all sizes fit
// except N = P = 128 with gradients.
bool gated_scan_fits(const GatedScanShape& shape, bool gradients);

// G is float or __nv_bfloat16.
template <typename G>
using GatedScanInputs = kernels::GatedScanInputs<__nv_bfloat16, G>;
template <typename G>
using GatedScanForward = kernels::GatedScanForward<__nv_bfloat16, G>;
template <typename G>
using GatedScanBackward = kernels::GatedScanBackward<__nv_bfloat16, G>;

int64_t gated_scan_states(const GatedScanShape& shape);
std::size_t gated_scan_forward_workspace(const GatedScanShape& shape);  // bytes
std::size_t gated_scan_backward_workspace(const GatedScanShape& shape);

// All pointers and rows are aligned to 16 bytes. bounds (n): the first token of a token's sequence
// and one past its last.
template <typename G>
cudaError_t gated_scan_forward(const GatedScanForward<G>& pass, const int2* bounds,
                               cudaStream_t stream);
template <typename G>
cudaError_t gated_scan_backward(const GatedScanBackward<G>& pass, const int2* bounds,
                                cudaStream_t stream);

}  // namespace hydramix::cuda
