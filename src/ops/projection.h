// SPDX-License-Identifier: Apache-2.0
// The large matrix products of a model: projections, MLPs, the head. On a GPU they may be computed
// in bfloat16, products and gradients alike, and so is what passes between layers then; weights and
// their gradients stay float32:
//
//   MatmulPrecision precision(torch::kBFloat16);
//   model->encode(...);
//
// float64 is never rounded. On the CPU bfloat16 is an error: it would be slower there and less
// exact.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// What products are computed in, for this thread and as long as it lives.
class MatmulPrecision {
 public:
  explicit MatmulPrecision(torch::ScalarType type);  // float32 or bfloat16
  ~MatmulPrecision();
  MatmulPrecision(const MatmulPrecision&) = delete;
  MatmulPrecision& operator=(const MatmulPrecision&) = delete;

  static torch::ScalarType current();

 private:
  torch::ScalarType before_;
};

// What products with x are computed in here and now.
torch::ScalarType product_type(const torch::Tensor& x);

// x (..., in), weight (out, in), bias (out) or undefined -> x weight^T + bias (..., out), in the
// dtype of x.
torch::Tensor project(const torch::Tensor& x, const torch::Tensor& weight,
                      const torch::Tensor& bias);

// The same with a block-diagonal matrix: x (..., blocks in), weight (blocks, out, in), bias
// (blocks out) -> (..., blocks out).
torch::Tensor project_blocks(const torch::Tensor& x, const torch::Tensor& weight,
                             const torch::Tensor& bias);

}  // namespace hydramix
