// SPDX-License-Identifier: Apache-2.0
// The gated norm without autograd, for operations that it is a part of.
#pragma once

#include "ops/gpu/gpu.h"

namespace hydramix::gpu {

// y, out (n, C), z (n, Z), rows any distance apart; weight (C) float32.
void gated_norm_forward(const torch::Tensor& y, const torch::Tensor& z, const torch::Tensor& weight,
                        double eps, const torch::Tensor& out);
// Fills dy and dz, which may lie anywhere; the gradient of the weight.
torch::Tensor gated_norm_backward(const torch::Tensor& y, const torch::Tensor& z,
                                  const torch::Tensor& weight, double eps,
                                  const torch::Tensor& dout, const torch::Tensor& dy,
                                  const torch::Tensor& dz);

}  // namespace hydramix::gpu
