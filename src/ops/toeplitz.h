// SPDX-License-Identifier: Apache-2.0
// Toeplitz matrices M_ij = t_{i-j}: built, and applied through the real FFT in O(L log L).
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// t: (S or 1, H, 2 L - 1), lag -(L - 1) first, lag L - 1 last -> (S or 1, H, L, L).
torch::Tensor toeplitz_matrix(const torch::Tensor& t);

// The same matrix applied to x (S, L, H, P) -> (S, L, H, P).
torch::Tensor toeplitz_product(const torch::Tensor& t, const torch::Tensor& x);

// The smallest n' >= n without a prime factor above 5: FFTs are fast there, and padding is free.
int64_t fast_fft_size(int64_t n);

}  // namespace hydramix
