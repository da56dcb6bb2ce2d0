// SPDX-License-Identifier: Apache-2.0
// Dropout is a function of this key and of what is dropped: the position and channel of an
// embedding or of a layer's output, or the head, row and column of an entry of a matrix. A sequence
// gets the same mask in any batch, on any rank.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

struct DropoutKey {
  int64_t seed = 0;
  torch::Tensor sequences;  // (S) int64: a number for each nonempty sequence of the layout
  int64_t layer = 0;        // the encoder sets it, so that the masks of its layers differ
};

}  // namespace hydramix
