// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "support/tensors.h"

namespace hydramix::test {

// x, the parameters and the weights of a case, all with gradients.
inline std::vector<torch::Tensor> inputs_with_gradients(MixerCase& c) {
  c.x.requires_grad_();
  c.params.requires_grad_();
  std::vector<torch::Tensor> inputs{c.x, c.params};
  for (const auto& p : c.mixer->parameters()) inputs.push_back(p);
  return inputs;
}

// The gradients of two ways to compute y, for the same random dy. An input that one way does not
// use has a gradient of zero.
inline void expect_equal_gradients(const torch::Tensor& fast, const torch::Tensor& slow,
                                   const std::vector<torch::Tensor>& inputs, double tolerance,
                                   const std::string& what) {
  const auto dy = torch::randn_like(fast);
  const auto gradients = [&](const torch::Tensor& y) {
    return torch::autograd::grad({y}, inputs, {dy}, /*retain_graph=*/true, /*create_graph=*/false,
                                 /*allow_unused=*/true);
  };
  const auto a = gradients(fast), b = gradients(slow);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto zero = torch::zeros_like(inputs[i]);
    expect_close(a[i].defined() ? a[i] : zero, b[i].defined() ? b[i] : zero, tolerance,
                 what + ", input " + std::to_string(i));
  }
}

}  // namespace hydramix::test
