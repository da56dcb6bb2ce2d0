// SPDX-License-Identifier: Apache-2.0
// Softmax attention without its matrix,
//
//   y_i = sum_j softmax_j(q_i . k_j / sqrt(d)) x_j,
//
// in O(L^2) operations and O(L) memory, forward and backward: scores exist for a piece of queries
// against a piece of keys, in cache, and the softmax is carried from piece to piece by a running
// maximum and sum (Milakov and Gimelshein 2018; Dao et al. 2022). Saved for the gradient are q, k,
// x, y and the logarithm of each row's sum, from which it makes the scores again.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// q, k (S or 1, H, L, d), x (S, L, H, P) -> (S, L, H, P). valid (S, L) bool leaves out the keys
// where it is false, and has a true in every row; undefined: all are keys. bfloat16 on a GPU is
// left to LibTorch's kernels (fits_fused_attention): flash, or with `valid` those that take a mask.
torch::Tensor softmax_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& x, const torch::Tensor& valid);

// Whether LibTorch has kernels for bfloat16 of these shapes on this device.
bool fits_fused_attention(const torch::Tensor& q, const torch::Tensor& x);

}  // namespace hydramix
