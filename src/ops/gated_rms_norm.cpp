// SPDX-License-Identifier: Apache-2.0
#include "ops/gated_rms_norm.h"

namespace hydramix {

torch::Tensor gated_rms_norm(const torch::Tensor& y, const torch::Tensor& z,
                             const torch::Tensor& weight, double eps) {
  const auto scale = torch::rsqrt(y.square().mean(-1, /*keepdim=*/true) + eps);
  return y * scale * weight * torch::silu(z);
}

}  // namespace hydramix
