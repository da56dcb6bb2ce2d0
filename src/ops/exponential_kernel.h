// SPDX-License-Identifier: Apache-2.0
// Convolution kernels that are sums of exponentials of the lag, those of diagonal state-space
// models:
//
//   k_l = Re sum_n c_n exp(l a_n),   l = 0 .. L - 1,   Re(a_n) <= 0
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// c (H, N), a (H or 1, N), complex128 -> (H, L) of the given real dtype. O(N L) multiplications in
// matrix products, but only O(N sqrt(L)) exponentials and memory for them.
torch::Tensor exponential_kernel(const torch::Tensor& c, const torch::Tensor& a, int64_t L,
                                 torch::ScalarType dtype);

}  // namespace hydramix
