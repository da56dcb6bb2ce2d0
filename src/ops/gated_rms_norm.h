// SPDX-License-Identifier: Apache-2.0
// out = y / sqrt(mean(y^2) + eps) * weight * silu(z): one group over all channels, then the gate.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// y, z (S, L, C), weight (C) -> (S, L, C).
torch::Tensor gated_rms_norm(const torch::Tensor& y, const torch::Tensor& z,
                             const torch::Tensor& weight, double eps);

}  // namespace hydramix
