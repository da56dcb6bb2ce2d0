// SPDX-License-Identifier: Apache-2.0
// Butterfly matrices B = F_{K-1} ... F_1 F_0 of size n = 2^K (Dao et al. 2019, "Learning Fast
// Algorithms for Linear Transforms Using Butterfly Factorizations"). F_k mixes the positions i and
// i + 2^k (bit k of i is 0), each pair by a 2 x 2 block of its own.
//
// Weights are (H, K, n / 2, 2, 2). Pair q 2^k + r of factor k are the positions i = q 2^{k+1} + r
// and i + 2^k, and its block is [out][in]. They may be complex: the Fourier transform is a
// butterfly after a bit reversal.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// The leading (rows, cols) block of B -> (H, rows, cols). Exactly one path leads from position j to
// position i, since factor k replaces bit k of j by bit k of i. Each entry is the product of the
// weights on its path.
torch::Tensor butterfly_matrix(const torch::Tensor& w, int64_t rows, int64_t cols);

// B v, or B^T v, for v (H, n, C), in O(n log n) for the result and for both gradients. Up to 4
// consecutive factors are multiplied into dense blocks of 16 x 16 and applied as batched GEMMs;
// K / 4 copies of v are saved for the backward pass.
torch::Tensor butterfly_product(const torch::Tensor& w, const torch::Tensor& v, bool transposed);

}  // namespace hydramix
