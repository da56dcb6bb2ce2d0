// SPDX-License-Identifier: Apache-2.0
// Less memory for more work: a function whose intermediate results are not kept for the backward
// pass but computed anew in it, to the bit, from its input.
#pragma once

#include <functional>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

using TensorFunction = std::function<torch::Tensor(const torch::Tensor&)>;

// f(x). `parameters` are all other tensors that the gradient goes to; f must give the same each
// time.
torch::Tensor recomputed(const TensorFunction& f, const torch::Tensor& x,
                         const std::vector<torch::Tensor>& parameters);

}  // namespace hydramix
