// SPDX-License-Identifier: Apache-2.0
// A call with the autograd graph that its backward pass follows.
#pragma once

#include <memory>
#include <vector>

#include "python/module_pool.h"
#include "python/tape.h"

namespace hydramix {

class RecordedCall : public Tape {
 public:
  // Whether the weights are rounded even if that was done since their last write. Where a call is
  // captured, its replays must round them.
  enum class Rounding { kAfterWrites, kAlways };

  // Calls the module and records the gradients of input (index 0) and weights (index i + 1) that
  // `wanted` lists.
  RecordedCall(const std::string& spec, const ModuleCall& call, at::TensorList weights,
               const std::vector<int64_t>& wanted, Rounding rounding = Rounding::kAfterWrites);

  torch::Tensor output() const override { return output_.detach().contiguous(); }
  std::vector<torch::Tensor> backward(const torch::Tensor& gradient,
                                      at::TensorList weights) const override;

 private:
  // Destroyed last: the graph refers to the weights.
  std::unique_ptr<BorrowedModule> module_;
  std::vector<torch::Tensor> wanted_;
  torch::Tensor output_;
};

}  // namespace hydramix
