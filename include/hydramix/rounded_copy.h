// SPDX-License-Identifier: Apache-2.0
// The bfloat16 copy of a float32 weight, for products on tensor cores. The module that owns the
// weight owns its copy. A weight is rounded once after each write; the optimizer may write both at
// once. LibTorch's version counter detects writes, except those through weight.data(). The copy is
// made on the stream of the call, and other streams wait for it. The caller must synchronize writes
// to a weight with reads on another stream.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

class RoundedCopy {
 public:
  RoundedCopy();

  // The rounded weight, or the weight itself if it is bfloat16. The memory of the copy does not
  // change when the weight is written. LibTorch cannot detect writes to the copy, so an autograd
  // function that saves it must also save the weight.
  torch::Tensor of(const torch::Tensor& weight) const;
  // Declares that `copy` is `weight` rounded, from now until the next write to the weight.
  void set(const torch::Tensor& weight, const torch::Tensor& copy) const;

  struct State;  // ops/rounded_copy.h

 private:
  std::shared_ptr<State> state_;
};

// A module with such weights.
class HasRoundedCopies {
 public:
  virtual ~HasRoundedCopies() = default;
  virtual std::vector<std::pair<torch::Tensor, RoundedCopy>> rounded_copies() const = 0;
};

}  // namespace hydramix
