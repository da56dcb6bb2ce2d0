// SPDX-License-Identifier: Apache-2.0
// Norms over the channels of a token, row by row: the gated RMS norm of the block, and the sum of a
// residual and its LayerNorm. Rows are any distance apart.
#pragma once

#include <cstdint>

#include "kernels/cpu/storage.h"

namespace hydramix::kernels {

// Rows of a task: the gradient of the weights gets one row per task.
constexpr int64_t kNormRows = 128;

// out = y / sqrt(mean(y^2) + eps) * weight * silu(z), (rows, C). Channel c is gated by z[c % Z].
template <typename S>
void gated_rms_norm_forward(int64_t rows, int64_t C, int64_t Z, double eps, const S* y,
                            int64_t y_row, const S* z, int64_t z_row, const Arithmetic<S>* weight,
                            S* out, int64_t out_row);

// dy (rows, C), dz (rows, Z) and dweight (C), what these rows add to the gradient of the weight.
template <typename S>
void gated_rms_norm_backward(int64_t rows, int64_t C, int64_t Z, double eps, const S* y,
                             int64_t y_row, const S* z, int64_t z_row, const Arithmetic<S>* weight,
                             const S* dout, int64_t dout_row, S* dy, int64_t dy_row, S* dz,
                             int64_t dz_row, Arithmetic<S>* dweight);

// sum = a + b (null: a alone), out = (sum - mean) / sqrt(variance + eps) * weight + bias, (rows,
// C).
template <typename S>
void add_layer_norm_forward(int64_t rows, int64_t C, double eps, const S* a, int64_t a_row,
                            const S* b, int64_t b_row, const Arithmetic<S>* weight,
                            const Arithmetic<S>* bias, S* out, int64_t out_row);

// dsum (rows, C), the gradient of a as of b, and dweight (2, C): of the weight, then of the bias.
template <typename S>
void add_layer_norm_backward(int64_t rows, int64_t C, double eps, const S* a, int64_t a_row,
                             const S* b, int64_t b_row, const Arithmetic<S>* weight, const S* dout,
                             int64_t dout_row, S* dsum, int64_t dsum_row, Arithmetic<S>* dweight);

}  // namespace hydramix::kernels
