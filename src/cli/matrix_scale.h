// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// The 99th percentile of |M| (L, L) off the diagonal. With the largest magnitude as the scale, a
// residual on the diagonal or a few spikes would drown everything else in a picture.
double usual_magnitude(const torch::Tensor& M);

}  // namespace hydramix
