// SPDX-License-Identifier: Apache-2.0
// The options `device` and `precision` of a run.
#pragma once

#include <string>

#include "hydramix/torch_compat.h"

namespace hydramix {

// "auto", "cpu" or "cuda"; each rank of a machine gets its own GPU.
torch::Device choose_device(const std::string& name, int64_t local_rank);
// "auto", "float32" or "bfloat16".
torch::ScalarType choose_precision(const std::string& name, torch::Device device);

}  // namespace hydramix
