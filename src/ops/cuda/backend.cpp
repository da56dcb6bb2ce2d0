// SPDX-License-Identifier: Apache-2.0
#include "ops/backend.h"

namespace hydramix {

bool has_cuda_kernels() { return true; }

}  // namespace hydramix
