// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// x W^T + bias for few outputs. x (n, C) has any dtype and row stride; weight (H, C), bias (H) and
// the result (n, H) have the dtype that x is computed in. A kernel on the CPU, LibTorch elsewhere.
torch::Tensor narrow_linear(const torch::Tensor& x, const torch::Tensor& weight,
                            const torch::Tensor& bias);

// The same on the CPU without checks and autograd, some rows at a time. Threads may share it.
class NarrowRows {
 public:
  // x (n, C) with contiguous rows, weight (H, C), bias (H) contiguous.
  NarrowRows(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias);
  void compute(int64_t begin, int64_t end) const;     // rows [begin, end) of the result
  const torch::Tensor& result() const { return y_; }  // (n, H)

 private:
  torch::Tensor x_, columns_, bias_, y_;
};

}  // namespace hydramix
