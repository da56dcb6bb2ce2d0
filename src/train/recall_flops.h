// SPDX-License-Identifier: Apache-2.0
// Operations that an encoder spends on one token, forward: multiplications, additions and
// exponentials, all counted as one. Counted are the linear layers and convolutions of all blocks,
// two operations for each weight, and the mixer by the recurrence or product that defines it:
//
//   scan of N states, per direction       5 H P N       a h, b x, their sum, and c . h
//   s6 also has a decay for each state    2 H N
//   low rank d                            4 H P d       K^T x and Q (K^T x)
//   attention to m positions              m H (2 d + 2 P + 3)   m = L, or (L + 1) / 2 if causal
//
// Not counted are embedding, norms, gates and the head, which are the same for all mixers. A kernel
// may spend more: chunked scans multiply matrices to use the hardware better.
#pragma once

#include <optional>

#include "hydramix/bert.h"

namespace hydramix {

// For sequences of `length` tokens. Nothing for a mixer that the list above lacks.
std::optional<double> forward_flops_per_token(const BertForMaskedLMImpl& model, int64_t length);

}  // namespace hydramix
