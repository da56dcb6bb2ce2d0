// SPDX-License-Identifier: Apache-2.0
// A batch as N independent heads, (N, L, C), for tensor operations on cache-sized pieces. Each head
// of each sequence is one entry. If all sequences share a head's matrix, they become channels of
// one entry, and the matrix is computed once.
#pragma once

#include <functional>

#include "hydramix/torch_compat.h"

namespace hydramix {

// Calls task(begin, count) so that every head of [0, N) is covered once. On the CPU each head is
// one task on LibTorch's threads, with the caller's modes (gradients, inference). The pieces of a
// head stay in one core's cache, and the result does not depend on the number of threads. On a GPU
// there is one call for all heads.
void for_heads(int64_t N, const torch::Device& device,
               const std::function<void(int64_t begin, int64_t count)>& task);

// The number of positions per piece, at least 16: `width` numbers per position and head then fill a
// core's cache, or a share of a GPU's memory.
int64_t piece_length(int64_t width, const torch::Tensor& like);

// x (S, L, H, P) -> (N, L, C), contiguous: N = S H and C = P, or N = H and C = S P if `shared`.
torch::Tensor to_head_batch(const torch::Tensor& x, bool shared);
// The inverse, in the shape of x.
torch::Tensor from_head_batch(const torch::Tensor& heads, const torch::Tensor& x, bool shared);

}  // namespace hydramix
