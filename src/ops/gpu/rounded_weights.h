// SPDX-License-Identifier: Apache-2.0
// Weights in bfloat16, for products on tensor cores. A float32 weight is rounded once and not again
// until it is written; the optimizer may write both at once.
#pragma once

#include "ops/gpu/gpu.h"

namespace hydramix::gpu {

// weight as it is, or rounded: the same tensor as long as the weight is not written to (LibTorch
// counts writes).
torch::Tensor rounded(const torch::Tensor& weight);

// Whether a weight was ever rounded: then an optimizer does well to keep copies.
bool rounding_is_used();

// Says that `copy` is `weight` rounded, from now until the next write to it.
void set_rounded(const torch::Tensor& weight, const torch::Tensor& copy);

}  // namespace hydramix::gpu
