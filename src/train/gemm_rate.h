// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hydramix/torch_compat.h"

namespace hydramix {

// Floating-point operations a second of large matrix products on this device, as
// matrix_product() does them: the yardstick for a training's rate. A tenth of a second.
double gemm_rate(torch::Device device, torch::ScalarType type);

}  // namespace hydramix
