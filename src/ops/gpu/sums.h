// SPDX-License-Identifier: Apache-2.0
// Sums that stay in float32 although their terms are bfloat16.
#pragma once

#include "ops/gpu/gpu.h"

namespace hydramix::gpu {

// a (m, k), b (k, n) bfloat16 -> (m, n) float32
torch::Tensor product_in_float(const torch::Tensor& a, const torch::Tensor& b);
// (n, C) float32 or bfloat16 -> (C) float32
torch::Tensor column_sums(const torch::Tensor& t);

}  // namespace hydramix::gpu
