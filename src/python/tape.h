// SPDX-License-Identifier: Apache-2.0
// A tape holds what a backward pass needs. Operators exchange tensors only, so a tape travels from
// the forward to the backward operator as a tensor () int64 whose memory owns the tape. A copy of
// that tensor has other memory, so it is an error.
#pragma once

#include <memory>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

class Tape {
 public:
  virtual ~Tape() = default;

  // Contiguous and without autograd.
  virtual torch::Tensor output() const = 0;
  // One gradient for each wanted tensor, contiguous, as the fake operators promise. `weights` are
  // those of the call; their memory may have moved since.
  virtual std::vector<torch::Tensor> backward(const torch::Tensor& gradient,
                                              at::TensorList weights) const = 0;
};

// Moves a tape into a tensor.
torch::Tensor hold_tape(std::unique_ptr<const Tape> tape);
// Valid as long as the tensor. Throws Error for one that holds no tape.
const Tape& held_tape(const torch::Tensor& holder);

}  // namespace hydramix
