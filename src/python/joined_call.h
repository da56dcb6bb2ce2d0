// SPDX-License-Identifier: Apache-2.0
// A call whose autograd graph becomes a part of Python's.
#pragma once

#include "python/called_module.h"

namespace hydramix {

// Calls the module of this spec with these weights. Gradients of the result go on to the input and
// to the weights. The module is lent until the graph is freed.
torch::Tensor joined_call(const std::string& spec, const ModuleCall& call, at::TensorList weights);

}  // namespace hydramix
