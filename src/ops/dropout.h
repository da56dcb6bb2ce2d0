// SPDX-License-Identifier: Apache-2.0
// Dropout with masks that are pure functions of the numbers of a token or matrix, not of its
// position in a batch. However a batch is split over machines, every token loses the same channels,
// and every matrix the same entries.
#pragma once

#include <string>

#include "hydramix/dropout_key.h"

namespace hydramix {

struct TokenNumbers {
  int64_t seed;
  torch::Tensor sequence;  // (n) int64
  torch::Tensor place;     // (n) int64: position in the sequence
};

// (n, channels) bool: true with probability 1 - share, where dropout keeps the channel.
torch::Tensor keep_mask(const TokenNumbers& tokens, int64_t channels, double share);

// (n, channels) bool: the same for one of the outputs within an encoder, which are numbered.
torch::Tensor keep_output(const TokenNumbers& tokens, int64_t output, int64_t channels,
                          double share);

// (n, channels) bool: the same for the inner channels of the MLP of a layer.
torch::Tensor keep_inner(const TokenNumbers& tokens, int64_t layer, int64_t channels, double share);

// (S, heads, L, L) bool: the same for the entries of a matrix per sequence of the key and head.
torch::Tensor keep_entries(const DropoutKey& matrices, int64_t heads, int64_t L, double share);

// (S) bool: true where a sequence of the key keeps the whole of one of those outputs.
torch::Tensor keep_branches(const DropoutKey& key, int64_t output, double share);

// Throws, naming `who`, unless the key has a number for each of `count` sequences; `share` is the
// dropout probability.
void check_key(const std::string& who, const DropoutKey& key, int64_t count, double share);

}  // namespace hydramix
