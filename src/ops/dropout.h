// SPDX-License-Identifier: Apache-2.0
// Dropout with a mask that is a pure function of the token's own numbers, not of its position in a
// batch. However a batch is split over machines, every token loses the same channels.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

struct TokenNumbers {
  int64_t seed;
  torch::Tensor sequence;  // (n) int64
  torch::Tensor place;     // (n) int64: position in the sequence
};

// (n, channels) bool: true with probability 1 - share, where dropout keeps the channel.
torch::Tensor keep_mask(const TokenNumbers& tokens, int64_t channels, double share);

}  // namespace hydramix
