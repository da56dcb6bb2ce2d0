// SPDX-License-Identifier: Apache-2.0
// A matrix in a tensor, to be drawn.
#pragma once

#include <string>

#include "hydramix/torch_compat.h"
#include "view/matrix_image.h"

namespace hydramix {

// M (L, L), float64 on the CPU. `scale` is the magnitude of the end colours; 0: the 99th percentile
// of |M| off the diagonal. With the largest magnitude as the scale, a residual on the diagonal or a
// few spikes would drown everything else.
MatrixPicture matrix_picture(const std::string& title, const torch::Tensor& M, double scale = 0);

// The share of |M| (L, L) off the diagonal: how much a head reads other positions.
double share_of_others(const torch::Tensor& M);

}  // namespace hydramix
