// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// x W^T + bias for few outputs. x (n, C) has any dtype and row stride; weight (H, C), bias (H) and
// the result (n, H) have the dtype that x is computed in. A kernel on the CPU, LibTorch elsewhere.
torch::Tensor narrow_linear(const torch::Tensor& x, const torch::Tensor& weight,
                            const torch::Tensor& bias);

}  // namespace hydramix
