// SPDX-License-Identifier: Apache-2.0
// Toeplitz matrices M_ij = t_{i-j}: built explicitly, or applied through real FFTs, forward and
// backward, in O(L log L) per channel and with memory linear in L.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// t: (S or 1, H, 2 L - 1), from lag -(L - 1) to lag L - 1 -> (S or 1, H, L, L).
torch::Tensor toeplitz_matrix(const torch::Tensor& t);

// The same matrix applied to x (S, L, H, P) -> (S, L, H, P).
torch::Tensor toeplitz_product(const torch::Tensor& t, const torch::Tensor& x);

}  // namespace hydramix
