// SPDX-License-Identifier: Apache-2.0
// Matrix products: on the CPU by our own kernel (kernels/cpu/product.h), independent of the BLAS
// that LibTorch was built with; on a GPU by LibTorch.
//
// On the CPU the bits of a row depend neither on the other rows nor on the number of threads.
// bfloat16 is computed in float32 and rounded once. LibTorch would call oneDNN, and Debian 12's
// version of oneDNN crashes with SIGILL on CPUs with AMX.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// a (..., m, k), b (..., k, n) of one dtype -> (..., m, n). Leading dimensions are broadcast.
// Differentiable any number of times.
torch::Tensor matrix_product(const torch::Tensor& a, const torch::Tensor& b);

// x (..., in), weight (out, in), bias (out) or undefined, of one dtype -> x weight^T + bias.
torch::Tensor linear_map(const torch::Tensor& x, const torch::Tensor& weight,
                         const torch::Tensor& bias = {});

// c = a b, or c += a b, without autograd. a (..., m, k), b (..., k, n), c (..., m, n) with the same
// leading dimensions; rows of c are contiguous.
void matrix_product_into(const torch::Tensor& c, const torch::Tensor& a, const torch::Tensor& b,
                         bool add = false);

}  // namespace hydramix
