// SPDX-License-Identifier: Apache-2.0
// Softmax attention without its matrix,
//
//   y_i = sum_j softmax_j(q_i . k_j / sqrt(d)) x_j,      over all j, or over j <= i if causal,
//
// in O(L^2) operations and O(L) memory, forward and backward. Scores are computed for one tile of
// queries and keys at a time, which fits in cache. A running maximum and sum carry the softmax from
// tile to tile (Milakov and Gimelshein 2018; Dao et al. 2022). Tiles above the diagonal of a causal
// matrix are skipped. The forward pass saves q, k, x, y and the logarithm of each row's sum; the
// backward pass recomputes the scores from them.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// q, k (S or 1, H, L, d), x (S, L, H, P) -> (S, L, H, P). Keys where valid (S, L) bool is false are
// masked out; every row has at least one true. An undefined `valid` masks no key. bfloat16 on a GPU
// uses LibTorch's kernels (fits_fused_attention): flash attention, or with `valid` the kernels that
// take a mask.
torch::Tensor softmax_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& x, const torch::Tensor& valid);

// The same over the keys up to each query. It needs no `valid` if padding follows the tokens: no
// token sees it then.
torch::Tensor causal_softmax_attention(const torch::Tensor& q, const torch::Tensor& k,
                                       const torch::Tensor& x);

// Whether LibTorch has kernels for bfloat16 of these shapes on this device.
bool fits_fused_attention(const torch::Tensor& q, const torch::Tensor& x);

}  // namespace hydramix
