// SPDX-License-Identifier: Apache-2.0
// Dropout whose mask is a pure function of numbers that belong to a token, not of where it stands
// in which batch: split a batch over machines as you like, every token loses the same channels.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

struct TokenNumbers {
  int64_t seed;
  torch::Tensor sequence;  // (n) int64
  torch::Tensor place;     // (n) int64, in the sequence
};

// (n, channels) bool: true where a channel is kept, with probability 1 - share.
torch::Tensor keep_mask(const TokenNumbers& tokens, int64_t channels, double share);

}  // namespace hydramix
