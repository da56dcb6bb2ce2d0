// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/token_tiles.h"

#include <gtest/gtest.h>

#include "kernels/cuda/uniform_tiles.h"

namespace hydramix::cuda {
namespace {

// The closed form for sequences of one length equals the tiles found one by one. On the host.
TEST(TokenTiles, OfOneLengthAreThoseOfAnyLengths) {
  for (const int64_t length : {1, 2, 5, 63, 64, 65, 100, 127, 128, 129, 200, 256, 384, 1000, 8192})
    for (const int64_t count : {1, 2, 3, 7, 64}) {
      SCOPED_TRACE(std::to_string(count) + " x " + std::to_string(length));
      std::vector<int64_t> offsets{0};
      for (int64_t s = 1; s <= count; ++s) offsets.push_back(s * length);
      const TokenTiles any(offsets), uniform(count, length);
      ASSERT_EQ(uniform.tiles(), any.tiles());
      EXPECT_EQ(uniform.states, any.states);
      for (int tile = 0; tile <= any.tiles(); ++tile)
        ASSERT_EQ(std::min(tile * uniform_tile(length), count * length), any.begins[tile]) << tile;
      for (const int walks : {1, 24, 48, 1000})
        EXPECT_EQ(uniform.segment(walks), any.segment(walks)) << walks;
      for (const int segment : {1, 2, 3, 4, 8, 64})
        EXPECT_EQ(uniform.carries(segment), any.carries(segment)) << segment;
    }
}

}  // namespace
}  // namespace hydramix::cuda
