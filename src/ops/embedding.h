// SPDX-License-Identifier: Apache-2.0
// Rows of a table by number. As LibTorch's, with a gradient that is the same bit for bit in every
// run on a GPU too, where LibTorch promises that for some sizes only.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// table (V, C), ids (...) int64 in [0, V) -> (..., C)
torch::Tensor embedding(const torch::Tensor& table, const torch::Tensor& ids);

namespace on_cuda {
// dy (n, C) float32, ids (n) -> the gradient of a table (rows, C). The same call gives the same
// bits.
torch::Tensor embedding_gradient(const torch::Tensor& dy, const torch::Tensor& ids, int64_t rows);
}  // namespace on_cuda

}  // namespace hydramix
