// SPDX-License-Identifier: Apache-2.0
// The convolution without autograd, for operations that it is a part of.
#pragma once

#include <utility>

#include "ops/gpu/token_table.h"

namespace hydramix::gpu {

struct ConvSettings {
  std::shared_ptr<const TokenTable> table;
  int64_t centre, silu;
};

// x, y (n, C), rows any distance apart; weight (C, 1, K) and bias (C), or empty, float32.
void conv_forward(const ConvSettings& settings, const torch::Tensor& x, const torch::Tensor& weight,
                  const torch::Tensor& bias, const torch::Tensor& y);
// Fills dx; gradients of weight and bias.
std::pair<torch::Tensor, torch::Tensor> conv_backward(
    const ConvSettings& settings, const torch::Tensor& x, const torch::Tensor& weight,
    const torch::Tensor& bias, const torch::Tensor& dy, const torch::Tensor& dx);

}  // namespace hydramix::gpu
