// SPDX-License-Identifier: Apache-2.0
// Norms over the channels of a token: the gated RMS norm of the block, and the sum of a residual
// and its LayerNorm.
//
// Task i takes the rows [i kNormRows, (i + 1) kNormRows), and its sums over rows are part i of the
// workspace.
#pragma once

#include "kernels/cpu/storage.h"

namespace hydramix::kernels {

constexpr int64_t kNormRows = 128;
constexpr int64_t norm_tasks(int64_t rows) { return (rows + kNormRows - 1) / kNormRows; }

template <typename S>
void gated_norm_forward(const GatedNormForward<S>& p, int64_t task);
// Fills dy, dz and the workspace.
template <typename S>
void gated_norm_backward(const GatedNormBackward<S>& p, int64_t task);

template <typename S>
void layer_norm_forward(const LayerNormForward<S, S>& p, int64_t task);
// Fills da, the gradient of the sum, and the workspace.
template <typename S>
void layer_norm_backward(const LayerNormBackward<S, S>& p, int64_t task);

}  // namespace hydramix::kernels
