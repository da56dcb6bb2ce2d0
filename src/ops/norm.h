// SPDX-License-Identifier: Apache-2.0
// Norms over the channels of a token, by kernels that keep their inputs for the backward pass and
// compute the rest anew; float64 on a GPU, and the definition, by LibTorch.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// y / sqrt(mean(y^2) + eps) * weight * silu(z): one group over all channels, then the gate.
// y (..., C), z (..., Z), weight (C) -> (..., C). Z divides C; channel c is gated by z[c % Z].
torch::Tensor gated_rms_norm(const torch::Tensor& y, const torch::Tensor& z,
                             const torch::Tensor& weight, double eps);
torch::Tensor gated_rms_norm_ref(const torch::Tensor& y, const torch::Tensor& z,
                                 const torch::Tensor& weight, double eps);

// LayerNorm(a + b) over the last dimension; weight, bias (C).
torch::Tensor add_layer_norm(const torch::Tensor& a, const torch::Tensor& b,
                             const torch::Tensor& weight, const torch::Tensor& bias, double eps);
// LayerNorm(x)
torch::Tensor layer_norm(const torch::Tensor& x, const torch::Tensor& weight,
                         const torch::Tensor& bias, double eps);

}  // namespace hydramix
