// SPDX-License-Identifier: Apache-2.0
// The letters of all shape comments. Upper case is a size, lower case a tensor.
//
//   B  sequences in a batch      L  positions in a sequence (its length)
//   H  heads                     P  channels per head, so that d_inner = H P
//   G  groups of heads that share keys and queries        N  state size of a scan
//   S  sequences after padding is taken out (see layout.h)    T  tile: the chunk length of a scan
#pragma once

#include <cstdint>

namespace hydramix {

// The split of channels into heads: channel c belongs to head c / P.
struct Heads {
  int64_t H = 1;
  int64_t P = 64;

  int64_t channels() const { return H * P; }
};

}  // namespace hydramix
