// SPDX-License-Identifier: Apache-2.0
// Sums of Cauchy matrices applied to a sequence,
//
//   y_i = sum_j sum_d 1 / (a_id + b_jd) x_j,     a, b > 0,
//
// in O(L R d). With 1/z ~ sum_r w_r exp(-t_r z), every term is a product of two thin matrices,
// exp(-t_r a_id) and exp(-t_r b_jd), so the sum over d is one product of rank R d. The gradient is
// that of the sum of exponentials; the quadrature rule bounds its error as it bounds that of the
// sum. The thin matrices are computed in cache-sized pieces, forward and backward. Besides the
// arguments, R d P numbers per sequence and head are saved.
#pragma once

#include "ops/sum_of_exponentials.h"

#include "hydramix/torch_compat.h"

namespace hydramix {

// The matrix sum_d 1 / (a_id + b_jd) itself, in O(L^2 d), without keeping its terms for the
// gradient. a, b (S or 1, H, L, d) -> (S or 1, H, L, L).
torch::Tensor cauchy_matrix(const torch::Tensor& a, const torch::Tensor& b);

// a, b (S or 1, H, L, d), every a_id + b_jd in the interval of `sum`; x (S, L, H, P) -> the same.
torch::Tensor cauchy_product(const torch::Tensor& a, const torch::Tensor& b, const torch::Tensor& x,
                             const Exponentials& sum);

}  // namespace hydramix
