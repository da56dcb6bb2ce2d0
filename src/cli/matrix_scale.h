// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// What 99 % of the entries of M (L, L) off the diagonal stay below: a residual on the diagonal, or
// a few spikes, would drown everything else in a picture.
double usual_magnitude(const torch::Tensor& M);

}  // namespace hydramix
