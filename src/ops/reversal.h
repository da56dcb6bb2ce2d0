// SPDX-License-Identifier: Apache-2.0
// Reversal and shift of the paper's proposition 3.7 within each of several sequences. Both move
// whole tokens, so that no value of one sequence reaches another; O(n).
#pragma once

#include "hydramix/sequences.h"

namespace hydramix {

// t (n, ...): each sequence in reverse, where it was.
torch::Tensor flip_tokens(const torch::Tensor& t, const Sequences& sequences);
// t (n, ...): each sequence one position later, with zero at its first position and without its
// last.
torch::Tensor shift_tokens(const torch::Tensor& t, const Sequences& sequences);

// t (S, L, ...): each row in reverse up to its last token. Tokens come first in a row; valid (S, L)
// bool is true at them, and undefined if every position holds one. Padding stays where it is.
torch::Tensor flip_rows(const torch::Tensor& t, const torch::Tensor& valid);

}  // namespace hydramix
