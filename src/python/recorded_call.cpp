// SPDX-License-Identifier: Apache-2.0
#include "python/tape.h"

#include "hydramix/error.h"

namespace hydramix {
namespace {

// The memory of a tensor that owns a tape.
struct HeldTape {
  std::unique_ptr<const Tape> tape;
  int64_t value = 0;  // of the tensor; nothing reads it
};

// Its address also marks such a tensor.
void free_held_tape(void* held) { delete static_cast<HeldTape*>(held); }

}  // namespace

Tape::Tape(const std::string& spec, const ModuleCall& given, at::TensorList weights,
           const std::vector<int64_t>& wanted) {
  module_ = std::make_unique<BorrowedModule>(spec, weights);
  const torch::AutoGradMode with_graph(true);
  ModuleCall call = given;
  call.input = given.input.detach();
  for (const int64_t i : wanted)
    wanted_.push_back(i == 0 ? call.input.requires_grad_() : module_->differentiate(i - 1));
  output_ = module_->call(call);
}

std::vector<torch::Tensor> Tape::backward(const torch::Tensor& gradient) const {
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

torch::Tensor hold_tape(std::unique_ptr<const Tape> tape) {
  auto* held = new HeldTape{std::move(tape)};
  return at::for_blob(&held->value, {})
      .context(held, free_held_tape)
      .options(torch::kInt64)
      .make_tensor();
}

const Tape& held_tape(const torch::Tensor& holder) {
  const auto* held = holder.has_storage()
                         ? holder.storage().data_ptr().cast_context<HeldTape>(free_held_tape)
                         : nullptr;
  HYDRAMIX_CHECK(held != nullptr,
                 "run_backward: expected the tape that run_forward returned; this is another "
                 "tensor, or a copy, which has no tape. Hooks that move saved tensors elsewhere "
                 "cannot be used with hydramix; use torch.utils.checkpoint to save memory.");
  return *held->tape;
}

}  // namespace hydramix
