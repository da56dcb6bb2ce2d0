// SPDX-License-Identifier: Apache-2.0
// Where a run computes, and in what: the options `device` and `precision`.
#pragma once

#include <optional>
#include <string>

#include "ops/projection.h"

namespace hydramix {

// "auto", "cpu" or "cuda"; each rank of a machine gets a GPU of its own.
torch::Device choose_device(const std::string& name, int64_t local_rank);
// "auto", "float32" or "bfloat16".
bool choose_bfloat16(const std::string& name, torch::Device device);
// The guard for products in bfloat16, or none.
std::optional<MatmulPrecision> matmul_precision(bool bfloat16);

}  // namespace hydramix
