// SPDX-License-Identifier: Apache-2.0
// A recorded call: the autograd graph that its backward pass follows. Operators exchange tensors
// only, so a tape travels from the forward to the backward operator as a tensor () int64 whose
// memory owns the tape. A copy of that tensor has other memory, so it is an error.
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
torch::Tensor hold_tape(std::unique_ptr<const Tape> tape);
// Valid as long as the tensor. Throws Error for one that holds no tape.
const Tape& held_tape(const torch::Tensor& holder);

}  // namespace hydramix
