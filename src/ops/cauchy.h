// SPDX-License-Identifier: Apache-2.0
// Sums of Cauchy matrices applied to a sequence,
//
//   y_i = sum_j sum_d 1 / (a_id + b_jd) x_j,     a, b > 0,
//
// in O(L R d): with 1/z ~ sum_r w_r exp(-t_r z) every term is a product of two thin matrices,
// exp(-t_r a_id) and exp(-t_r b_jd), and all d share one product of rank R d. The gradient is that
// of the sum of exponentials, which the rule keeps as accurate as the sum itself. The thin matrices
// are made in cache-sized pieces, forward and backward; memory is that of the arguments, and of
// R d P numbers per sequence and head that are saved.
#pragma once

#include "ops/sum_of_exponentials.h"

#include "hydramix/torch_compat.h"

namespace hydramix {

// a, b (S or 1, H, L, d), every a_id + b_jd in the interval of `sum`; x (S, L, H, P) -> the same.
torch::Tensor cauchy_product(const torch::Tensor& a, const torch::Tensor& b, const torch::Tensor& x,
                             const Exponentials& sum);

}  // namespace hydramix
