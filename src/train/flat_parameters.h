// SPDX-License-Identifier: Apache-2.0
// All parameters of a model in one buffer, all gradients in another. The model's tensors become
// views of them. So backward accumulates in place; one reduction, one norm and one optimizer pass
// serve the whole model; and a checkpoint copies a few buffers.
#pragma once

#include <string>
#include <vector>

#include "hydramix/rounded_copy.h"

namespace hydramix {

class FlatParameters {
 public:
  struct Range {
    std::string name;  // as in named_weights()
    torch::Tensor parameter;
    int64_t begin, size;
    std::vector<RoundedCopy> copies;  // of the modules that multiply by it in bfloat16
  };

  // Moves the model's parameters into the buffer, in the order of its modules. All have one dtype
  // and one device. The model must outlive this object.
  explicit FlatParameters(torch::nn::Module& model);

  const std::vector<Range>& ranges() const { return ranges_; }
  std::vector<torch::Tensor> parameters() const;
  torch::Tensor& values() { return values_; }        // (n)
  torch::Tensor& gradients() { return gradients_; }  // (n)
  // The part of a buffer (n) that belongs to a parameter, in the parameter's shape.
  torch::Tensor part(const torch::Tensor& buffer, const Range& range) const;

  void zero_gradients() { gradients_.zero_(); }
  // Declares that a buffer (n) holds values() rounded to bfloat16, until the next write.
  void set_rounded(const torch::Tensor& buffer) const;
  // Call after writing values() without LibTorch, which counts writes.
  void mark_written();

 private:
  std::vector<Range> ranges_;
  torch::Tensor values_, gradients_;
};

}  // namespace hydramix
