// SPDX-License-Identifier: Apache-2.0
// A recorded call: the autograd graph that its backward pass follows. Operators exchange tensors
// only, so a tape travels from the forward to the backward operator as a tensor () int64, its
// number, whose memory owns the tape. A copy of that tensor owns nothing: it is valid as long as
// the first one lives, and an error after that.
#pragma once

#include <memory>
#include <vector>

#include "python/module_pool.h"

namespace hydramix {

class Tape {
 public:
  // Calls the module and records the gradients of input (index 0) and weights (index i + 1) that
  // `wanted` lists.
  Tape(const std::string& spec, const ModuleCall& call, at::TensorList weights,
       const std::vector<int64_t>& wanted);

  // Contiguous and without autograd.
  torch::Tensor output() const { return output_.detach().contiguous(); }
  // One gradient for each wanted tensor, contiguous, as the fake operators promise.
  std::vector<torch::Tensor> backward(const torch::Tensor& gradient) const;

 private:
  // Destroyed last: the graph refers to the weights.
  std::unique_ptr<BorrowedModule> module_;
  std::vector<torch::Tensor> wanted_;
  torch::Tensor output_;
};

// Moves a tape into a tensor.
torch::Tensor hold_tape(std::unique_ptr<Tape> tape);
// Throws Error when the tape no longer exists.
std::shared_ptr<const Tape> held_tape(const torch::Tensor& holder);

}  // namespace hydramix
