// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hydramix/torch_compat.h"

namespace hydramix {

// Floating-point operations per second that large matrix products reach on this device: the
// yardstick for the rate of a training run. On the CPU it is the rate of ops/product_rate.h, in
// float32.
double gemm_rate(torch::Device device, torch::ScalarType type);

}  // namespace hydramix
