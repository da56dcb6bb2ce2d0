// SPDX-License-Identifier: Apache-2.0
// Weights in bfloat16, for products on tensor cores. A float32 weight is rounded once and not again
// until it is written; the optimizer may write both at once. Writes are what LibTorch counts: not
// those through weight.data(). Copies are made on the stream of the call, and other streams wait
// for it; who writes weights while another stream reads them has to order the two.
#pragma once

#include "ops/gpu/gpu.h"

namespace hydramix::gpu {

// weight as it is, or rounded: the same memory for the same weight, however often that is written.
// LibTorch does not notice when the copy is written: who saves it for a backward pass saves the
// weight as well.
torch::Tensor rounded(const torch::Tensor& weight);

// Says that `copy` is `weight` rounded, from now until the next write to it.
void set_rounded(const torch::Tensor& weight, const torch::Tensor& copy);

}  // namespace hydramix::gpu
