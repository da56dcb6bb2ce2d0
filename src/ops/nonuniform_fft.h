// SPDX-License-Identifier: Apache-2.0
// Matrices of cosines at arbitrary frequencies, applied in O(L log L + L d) per channel:
//
//   C_ij = sum_d cos(2 pi step angle_id j),      i, j = 0 .. L - 1
//
// C x evaluates the cosine polynomial sum_j x_j cos(2 pi f j) at the frequencies f = step angle_id
// (a non-uniform FFT of type 2); C^T x sums cosines of those frequencies (type 1). Both use
// gridding: an FFT on a grid oversampled by 2, and a window of a few grid points around each
// frequency (docs/math.md). Memory is linear in L. The CPU has kernels; other devices use
// LibTorch's operations (ops/gathered_cosines.h).
//
// Frequencies may be any real numbers: they are multiplied by step and reduced modulo 1 in float64.
// Errors, relative to sum_j |x_j|: 1e-6 in float32, 1e-12 in float64. A frequency that is not
// finite makes the output of its sequence and head NaN.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// angle: (S or 1, H, L, d), x: (S, L, H, P) of the same type -> C x: (S, L, H, P). Differentiable
// once, in both.
torch::Tensor cosine_product(const torch::Tensor& angle, const torch::Tensor& x, double step = 1);
// The same for C^T x: y_i = sum_j sum_d cos(2 pi step angle_jd i) x_j.
torch::Tensor cosine_product_transposed(const torch::Tensor& angle, const torch::Tensor& x,
                                        double step = 1);

// C itself, (S or 1, H, L, L), from the definition. Summing one d at a time keeps memory at the
// size of C.
torch::Tensor cosine_matrix(const torch::Tensor& angle, double step = 1);

}  // namespace hydramix
