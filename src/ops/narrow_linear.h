// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// x W^T + bias for few outputs: x (n, C) in any storage, weight (H, C) and bias (H) in its
// arithmetic -> (n, H) in that arithmetic. Rows of x may lie apart. On the CPU by kernel, elsewhere
// by LibTorch.
torch::Tensor narrow_linear(const torch::Tensor& x, const torch::Tensor& weight,
                            const torch::Tensor& bias);

}  // namespace hydramix
