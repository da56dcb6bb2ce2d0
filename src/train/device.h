// SPDX-License-Identifier: Apache-2.0
// The options `device` and `precision` of a run.
#pragma once

#include <optional>
#include <string>

#include "ops/projection.h"

namespace hydramix {

// "auto", "cpu" or "cuda"; each rank of a machine gets its own GPU.
torch::Device choose_device(const std::string& name, int64_t local_rank);
// "auto", "float32" or "bfloat16".
bool choose_bfloat16(const std::string& name, torch::Device device);
// The guard that makes products bfloat16, or nullopt.
std::optional<MatmulPrecision> matmul_precision(bool bfloat16);

}  // namespace hydramix
