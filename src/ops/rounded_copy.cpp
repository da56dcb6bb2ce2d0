// SPDX-License-Identifier: Apache-2.0
#include "ops/rounded_copy.h"

namespace hydramix {

RoundedCopy::RoundedCopy() : state_(std::make_shared<State>()) {}

torch::Tensor RoundedCopy::of(const torch::Tensor& weight) const {
  return on_cuda::rounded(*state_, weight);
}

void RoundedCopy::set(const torch::Tensor& weight, const torch::Tensor& copy) const {
  on_cuda::set_rounded(*state_, weight, copy);
}

}  // namespace hydramix
