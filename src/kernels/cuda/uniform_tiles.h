// SPDX-License-Identifier: Apache-2.0
// Tiles of sequences of one length in closed form, equal to those that TokenTiles finds one by one.
#pragma once

#include <cstdint>

#include "kernels/cuda/scan.h"

namespace hydramix::cuda {

// Tokens of a tile: whole sequences where at least one fits.
constexpr int64_t uniform_tile(int64_t length) {
  return length > kTile ? kTile : kTile / length * length;
}

}  // namespace hydramix::cuda
