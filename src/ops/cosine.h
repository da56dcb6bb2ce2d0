// SPDX-License-Identifier: Apache-2.0
// Cosines and sines of 2 pi i j / n. The product i j is first reduced modulo n: without that,
// float32 has an error of 3e-4 already at n = 512.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// (rows, cols): cos(2 pi i j / n), in `options` (computed in float64).
torch::Tensor cosine_table(int64_t rows, int64_t cols, int64_t n,
                           const torch::TensorOptions& options);
// (rows, cols): sin(2 pi i j / n).
torch::Tensor sine_table(int64_t rows, int64_t cols, int64_t n,
                         const torch::TensorOptions& options);

}  // namespace hydramix
