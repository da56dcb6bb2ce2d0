// SPDX-License-Identifier: Apache-2.0
// A block and its matrix products, for the suites that measure whole blocks.
#pragma once

#include "bench/suite.h"

namespace hydramix::bench {

// u (B, L, d_model) in the subject's layout -> (B, L, d_model).
Function block_function(const Block& block, const torch::Tensor& u, const Subject& subject);
// in_proj and out_proj alone: the same weights, inputs of the same shapes.
Function block_gemms(const Block& block, const Subject& subject);
// The block against itself in float64, and its mixer against the matrix.
double verify_block(const Block& block, const Subject& subject, double tolerance);

}  // namespace hydramix::bench
