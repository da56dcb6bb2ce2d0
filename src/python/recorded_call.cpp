// SPDX-License-Identifier: Apache-2.0
#include "python/recorded_call.h"

namespace hydramix {

RecordedCall::RecordedCall(const std::string& spec, const ModuleCall& given, at::TensorList weights,
                           const std::vector<int64_t>& wanted, Rounding rounding) {
  module_ = std::make_unique<BorrowedModule>(spec, weights);
  if (rounding == Rounding::kAlways) module_->forget_rounded_weights();
  const torch::AutoGradMode with_graph(true);
  ModuleCall call = given;
  call.input = given.input.detach();
  for (const int64_t i : wanted)
    wanted_.push_back(i == 0 ? call.input.requires_grad_() : module_->differentiate(i - 1));
  output_ = module_->call(call);
}

// The graph has saved the weights.
std::vector<torch::Tensor> RecordedCall::backward(const torch::Tensor& gradient,
                                                  at::TensorList) const {
  // The graph stays, for callers that retain theirs; it is freed with the tape.
  auto gradients = torch::autograd::grad({output_}, wanted_, {gradient}, /*retain_graph=*/true,
                                         /*create_graph=*/false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined())
      gradients[i] = torch::zeros_like(wanted_[i]);
    else if (gradients[i].is_alias_of(gradient))  // an operator's results must not alias
      gradients[i] = gradients[i].clone();
    gradients[i] = gradients[i].contiguous();
  }
  return gradients;
}

}  // namespace hydramix
