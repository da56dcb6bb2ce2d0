// SPDX-License-Identifier: Apache-2.0
// How packed tokens are cut into tiles (kernels/cuda/scan.h). A sequence that fits into a tile is
// not cut, so short sequences need no states. A longer one is cut wherever a tile is full, and the
// rest of its last tile takes the beginning of the next sequence.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace hydramix::cuda {

struct TokenTiles {
  std::vector<int2> bounds;  // (n) first token of the sequence, one past its last
  std::vector<int> begins;   // (tiles + 1)
  bool states = false;       // some sequence is in more than one tile
  // The length of all sequences if it is the same; bounds and begins then have a closed form and
  // are empty. Otherwise 0.
  int64_t length = 0;

  // offsets: 0, ..., n, where sequences begin. Fewer than kMostTokens (limits.h).
  explicit TokenTiles(const std::vector<int64_t>& offsets);
  // `count` sequences of one length.
  TokenTiles(int64_t count, int64_t length);

  int tiles() const { return length > 0 ? tiles_ : static_cast<int>(begins.size()) - 1; }
  // Tiles of a segment, for `walks` walks through each (parts of heads, directions): enough of them
  // to fill a large GPU. carries(): whether some sequence is in more than one segment.
  int segment(int walks) const;
  static int segment_of(int tiles, int walks);  // wherever sequences end
  bool carries(int segment) const;

 private:
  int tiles_ = 0;  // of sequences of one length
};

// The tables of n tokens in sequences of one length, on the device: bounds (n), begins (tiles + 1).
cudaError_t fill_uniform_table(int64_t n, int64_t length, int tiles, int2* bounds, int* begins,
                               cudaStream_t stream);

}  // namespace hydramix::cuda
