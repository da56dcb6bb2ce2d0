// SPDX-License-Identifier: Apache-2.0
// The copy of a float32 weight in bfloat16 that products on tensor cores read. It belongs to the
// module that owns the weight. A weight is rounded once and not again until it is written; the
// optimizer may write both at once. Writes are those that LibTorch counts: not those through
// weight.data(). A copy is made on the stream of the call, and other streams wait for it; whoever
// writes weights while another stream reads them has to order the two.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

class RoundedCopy {
 public:
  RoundedCopy();

  // The weight rounded, or the weight itself if it is bfloat16. The same memory for the same
  // weight, however often that is written. LibTorch does not notice when the copy is written:
  // whoever saves it for a backward pass saves the weight as well.
  torch::Tensor of(const torch::Tensor& weight) const;
  // Declares that `copy` is `weight` rounded, from now until the next write to the weight.
  void set(const torch::Tensor& weight, const torch::Tensor& copy) const;

  struct State;  // ops/rounded_copy.h

 private:
  std::shared_ptr<State> state_;
};

// A module that has such weights.
class HasRoundedCopies {
 public:
  virtual ~HasRoundedCopies() = default;
  virtual std::vector<std::pair<torch::Tensor, RoundedCopy>> rounded_copies() const = 0;
};

}  // namespace hydramix
