// SPDX-License-Identifier: Apache-2.0
// Independent items of a batch, worked on by tensor operations in cache-sized pieces. An item is a
// head of a sequence, or a head of all sequences where they share a matrix: those sequences then
// are more channels, and the matrix is made once.
#pragma once

#include <functional>

#include "hydramix/torch_compat.h"

namespace hydramix {

// Calls task(begin, count) so that every item of [0, N) is covered once. On the CPU items go one by
// one to LibTorch's threads, each with the caller's modes (gradients, inference): one item's
// pieces stay in one core's cache, and the result does not depend on the number of threads. A GPU
// gets all items at once.
void for_heads(int64_t N, const torch::Device& device,
               const std::function<void(int64_t begin, int64_t count)>& task);

// Places of a sequence per piece, so that `width` numbers per place and item fill a core's cache,
// or on a GPU a share of its memory; at least 16.
int64_t piece_length(int64_t width, const torch::Tensor& like);

// x (S, L, H, P) -> (N, L, C), contiguous: N = S H and C = P, or N = H and C = S P if `shared`.
torch::Tensor to_head_batch(const torch::Tensor& x, bool shared);
// And back to the shape of x.
torch::Tensor from_head_batch(const torch::Tensor& heads, const torch::Tensor& x, bool shared);

}  // namespace hydramix
