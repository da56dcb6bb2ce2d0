// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/token_tiles.h"

#include <algorithm>

#include "kernels/cuda/reference_gpu.h"
#include "kernels/cuda/scan.h"
#include "kernels/cuda/uniform_tiles.h"

namespace hydramix::cuda {
namespace {

constexpr int64_t kWalksAtOnce = 3 * kReferenceProcessors;  // three blocks on each
constexpr int kShortestSegment = 4;

}  // namespace

TokenTiles::TokenTiles(const std::vector<int64_t>& offsets) {
  const int64_t n = offsets.back();
  bounds.reserve(static_cast<std::size_t>(n));
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
    bounds.insert(bounds.end(), static_cast<std::size_t>(offsets[s + 1] - offsets[s]),
                  {static_cast<int>(offsets[s]), static_cast<int>(offsets[s + 1])});
  begins = {0};
  for (int64_t t = 0; t < n;) {
    int64_t end = std::min(t + kTile, n);
    if (end < n) {
      const int2 cut = bounds[static_cast<std::size_t>(end)];
      if (cut.x > t && cut.y - cut.x <= kTile) end = cut.x;
      states = states || cut.x < end;
    }
    begins.push_back(static_cast<int>(end));
    t = end;
  }
}

TokenTiles::TokenTiles(int64_t count, int64_t length) : states(length > kTile), length(length) {
  const int64_t step = uniform_tile(length);
  tiles_ = static_cast<int>((count * length + step - 1) / step);
}

int TokenTiles::segment_of(int tiles, int walks) {
  const int64_t share = (int64_t{tiles} * walks + kWalksAtOnce - 1) / kWalksAtOnce;
  return static_cast<int>(std::clamp<int64_t>(share, std::min(kShortestSegment, tiles), tiles));
}

int TokenTiles::segment(int walks) const {
  const int wanted = std::max(1, segment_of(tiles(), walks));
  if (!states || tiles() <= wanted) return wanted;
  // A little longer, if that lets segments end where sequences do.
  for (int longer = wanted; longer <= 2 * wanted; ++longer)
    if (!carries(longer)) return longer;
  return wanted;
}

bool TokenTiles::carries(int segment) const {
  if (length > 0) return segment < tiles() && segment * uniform_tile(length) % length != 0;
  for (int tile = segment; tile < tiles(); tile += segment) {
    const int t = begins[static_cast<std::size_t>(tile)];
    if (bounds[static_cast<std::size_t>(t)].x < t) return true;
  }
  return false;
}

}  // namespace hydramix::cuda
