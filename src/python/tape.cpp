// SPDX-License-Identifier: Apache-2.0
#include "python/tape.h"

#include <mutex>
#include <unordered_map>

#include "hydramix/error.h"

namespace hydramix {
namespace {

class Tapes {
 public:
  // Never destroyed: tensors of Python may outlive static objects.
  static Tapes& instance() {
    static auto* tapes = new Tapes;
    return *tapes;
  }

  int64_t add(std::shared_ptr<const Tape> tape) {
    const std::lock_guard lock(mutex_);
    tapes_.emplace(++last_, std::move(tape));
    return last_;
  }
  std::shared_ptr<const Tape> find(int64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = tapes_.find(number);
    return found == tapes_.end() ? nullptr : found->second;
  }
  void remove(int64_t number) {
    std::shared_ptr<const Tape> removed;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    const auto found = tapes_.find(number);
    removed = std::move(found->second);
    tapes_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<int64_t, std::shared_ptr<const Tape>> tapes_;
  int64_t last_ = 0;
};

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

torch::Tensor hold_tape(std::unique_ptr<Tape> tape) {
  auto number = std::make_unique<int64_t>(Tapes::instance().add(std::move(tape)));
  const auto free = [](void* data) {
    const std::unique_ptr<int64_t> owned(static_cast<int64_t*>(data));
    Tapes::instance().remove(*owned);
  };
  return torch::from_blob(number.release(), {}, free, torch::kInt64);
}

std::shared_ptr<const Tape> held_tape(const torch::Tensor& holder) {
  HYDRAMIX_CHECK(holder.is_cpu() && holder.scalar_type() == torch::kInt64 && holder.numel() == 1,
                 "run_backward: expected the tape that run_forward returned.");
  auto tape = Tapes::instance().find(holder.item<int64_t>());
  HYDRAMIX_CHECK(tape != nullptr,
                 "run_backward: the tape is gone: only a copy of the tensor that owned it is left. "
                 "Hooks that move saved tensors elsewhere cannot be used with hydramix; use "
                 "torch.utils.checkpoint to save memory.");
  return tape;
}

}  // namespace hydramix
