// SPDX-License-Identifier: Apache-2.0
// The large matrix products of a model: projections, MLPs, the head. On a GPU they may be computed
// in bfloat16, products and gradients alike; weights and their gradients stay float32. float64 is
// never rounded. On the CPU bfloat16 products of float32 tensors are an error: they would be slower
// and less accurate.
#pragma once

#include "hydramix/rounded_copy.h"

namespace hydramix {

// The type that products with x are computed in, for a requested `precision` of float32 or
// bfloat16.
torch::ScalarType product_type(const torch::Tensor& x, torch::ScalarType precision);

// x (..., in), weight (out, in), bias (out) or undefined -> x weight^T + bias (..., out), in the
// dtype of x. Products are computed in `type`, a result of product_type(); by default in the dtype
// of x. `copy` is the weight's rounded copy; without it every call rounds the weight.
torch::Tensor project(const torch::Tensor& x, const torch::Tensor& weight,
                      const torch::Tensor& bias, const RoundedCopy& copy, torch::ScalarType type);
torch::Tensor project(const torch::Tensor& x, const torch::Tensor& weight,
                      const torch::Tensor& bias);

// The same with a block-diagonal matrix: x (..., blocks in), weight (blocks, out, in), bias
// (blocks out) -> (..., blocks out), in the dtype of x.
torch::Tensor project_blocks(const torch::Tensor& x, const torch::Tensor& weight,
                             const torch::Tensor& bias);

namespace on_cuda {
// a (m, k), b (k, n) bfloat16 -> (m, n) float32
torch::Tensor product_in_float(const torch::Tensor& a, const torch::Tensor& b);
// (n, C) float32 or bfloat16 -> (C) float32
torch::Tensor column_sums(const torch::Tensor& t);
}  // namespace on_cuda

}  // namespace hydramix
