// SPDX-License-Identifier: Apache-2.0
#include "ops/rounded_copy.h"

#include "ops/cuda/last_write.h"

namespace hydramix::on_cuda {

torch::Tensor rounded(RoundedCopy::State& state, const torch::Tensor& weight) {
  if (weight.scalar_type() == torch::kBFloat16) return weight.contiguous();
  // A later backward pass may need the copy, even if gradients are off now.
  const c10::InferenceMode no_inference(false);
  const torch::NoGradGuard no_grad;
  const auto value = weight.detach();
  // Tensors made in inference mode count no writes, and others are not weights.
  if (weight.is_inference() || !weight.is_leaf()) return value.to(torch::kBFloat16).contiguous();
  const std::lock_guard lock(state.mutex);
  if (state.copy.defined() && state.data == weight.data_ptr() &&
      state.copy.sizes() == weight.sizes()) {
    state.write->join();
    // Rounded in place, because a captured step reads this memory. Not counted as a write: all
    // copies may be parts of one tensor, and backward passes still need those that were rounded
    // before.
    if (state.version != weight._version()) {
      state.copy.variable_data().copy_(value);
      state.version = weight._version();
      state.write->record();
    }
    return state.copy;
  }
  state.copy = value.to(torch::kBFloat16).contiguous();
  state.data = weight.data_ptr();
  state.version = weight._version();
  state.write = std::make_shared<LastWrite>(weight.device());
  return state.copy;
}

void set_rounded(RoundedCopy::State& state, const torch::Tensor& weight,
                 const torch::Tensor& copy) {
  const std::lock_guard lock(state.mutex);
  state.copy = copy;
  state.data = weight.data_ptr();
  state.version = weight._version();
  state.write = std::make_shared<LastWrite>(weight.device());
}

}  // namespace hydramix::on_cuda
