// SPDX-License-Identifier: Apache-2.0
// The dtype that a computation runs in: float32 and float64 run in their own dtype, bfloat16 runs
// in float32. Any other dtype is an error, and nothing is rounded silently.
#pragma once

#include <string>

#include "hydramix/torch_compat.h"

namespace hydramix {

// float64 for float64, float32 for float32 and bfloat16. Any other dtype throws an Error that names
// `who` and the argument `name`.
torch::ScalarType arithmetic_type(const std::string& who, const std::string& name,
                                  const torch::Tensor& t);

// The type in which kernels read t: on a GPU with kernels its own, because they widen bfloat16 as
// they read it; elsewhere arithmetic_type(who, name, t).
torch::ScalarType kernel_input_type(const std::string& who, const std::string& name,
                                    const torch::Tensor& t);

// The weight converted to the dtype of `to`; undefined stays undefined. Throws instead of rounding
// a float64 weight or copying between devices.
torch::Tensor widened(const std::string& who, const torch::Tensor& weight,
                      const torch::TensorOptions& to);

}  // namespace hydramix
