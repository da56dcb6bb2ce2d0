// SPDX-License-Identifier: Apache-2.0
// Activation checkpointing: the backward pass recomputes a function's intermediate results from its
// input, bit for bit, instead of saving them.
#pragma once

#include <functional>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

using TensorFunction = std::function<torch::Tensor(const torch::Tensor&)>;

// f(x). `parameters` are all other tensors that need gradients. f must be deterministic.
torch::Tensor recomputed(const TensorFunction& f, const torch::Tensor& x,
                         const std::vector<torch::Tensor>& parameters);

}  // namespace hydramix
