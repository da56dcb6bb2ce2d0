// SPDX-License-Identifier: Apache-2.0
// Embedding lookup. Unlike LibTorch's, the gradient on a GPU is deterministic for all sizes.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// table (V, C), ids (...) int64 in [0, V) -> (..., C)
torch::Tensor embedding(const torch::Tensor& table, const torch::Tensor& ids);

namespace on_cuda {
// dy (n, C) float32, ids (n) -> the gradient of a table (rows, C). Deterministic.
torch::Tensor embedding_gradient(const torch::Tensor& dy, const torch::Tensor& ids, int64_t rows);
}  // namespace on_cuda

}  // namespace hydramix
