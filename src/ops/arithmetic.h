// SPDX-License-Identifier: Apache-2.0
// In what a computation is carried out: float32 and float64 in themselves, bfloat16 in float32.
// Nothing else is taken, and nothing is rounded in silence.
#pragma once

#include <string>

#include "hydramix/torch_compat.h"

namespace hydramix {

// float64 for float64, float32 for float32 and bfloat16; any other dtype is an Error that says that
// `who` got it for `name`.
torch::ScalarType arithmetic_type(const std::string& who, const std::string& name,
                                  const torch::Tensor& t);

// A weight in the arithmetic of `to`; undefined stays undefined. Throws rather than round a float64
// weight or use one of another device.
torch::Tensor widened(const std::string& who, const torch::Tensor& weight,
                      const torch::TensorOptions& to);

}  // namespace hydramix
