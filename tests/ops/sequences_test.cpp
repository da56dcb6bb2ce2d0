// SPDX-License-Identifier: Apache-2.0
#include "hydramix/sequences.h"

#include <gtest/gtest.h>

#include "hydramix/error.h"
#include "hydramix/layout.h"
#include "support/expect.h"

namespace hydramix {
namespace {

TEST(Sequences, NumberTheirTokens) {
  const Sequences sequences({0, 2, 2, 5});
  EXPECT_EQ(sequences.tokens(), 5);
  EXPECT_EQ(sequences.count(), 3);
  EXPECT_TRUE(torch::equal(sequences.index_of_tokens(torch::kCPU),
                           torch::tensor({0, 0, 2, 2, 2}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(sequences.place_of_tokens(torch::kCPU),
                           torch::tensor({0, 1, 0, 1, 2}, torch::kInt64)));
}

TEST(Sequences, OfOneLengthHaveItsMultiplesForOffsets) {
  EXPECT_EQ(Sequences::uniform(3, 4).offsets(), (std::vector<int64_t>{0, 4, 8, 12}));
  EXPECT_EQ(Sequences::uniform(3, 0).offsets(), (std::vector<int64_t>{0}));
  EXPECT_EQ(Sequences::uniform(0, 4).tokens(), 0);
}

TEST(Sequences, AreSharedByALayoutAndItsTokens) {
  const Sequences sequences({0, 2, 5});
  const auto layout = Layout::packed(sequences);
  EXPECT_EQ(&layout.sequences(1, 5).state(), &sequences.state());
  EXPECT_EQ(&layout.token_layout().sequences(1, 5).state(), &sequences.state());
  const auto padded = Layout::padded(torch::tensor({{1, 1, 0}, {0, 1, 1}}));
  EXPECT_EQ(&padded.sequences(2, 3).state(), &padded.token_layout().sequences(1, 4).state());
  EXPECT_THROW_WITH(Layout::packed(Sequences({0, 2, 2})), Error, "one of the sequences is empty");
}

// The default layout fits every tensor; bound to a shape it refuses others and finds its sequences
// once.
TEST(Sequences, OfALayoutForOneShapeAreFoundOnce) {
  const auto layout = Layout().for_shape(2, 3);
  EXPECT_EQ(layout.sequences(2, 3).offsets(), (std::vector<int64_t>{0, 3, 6}));
  EXPECT_EQ(&layout.sequences(2, 3).state(), &layout.for_shape(2, 3).sequences(2, 3).state());
  EXPECT_NO_THROW(layout.check("test", 2, 3));
  EXPECT_THROW_WITH(layout.check("test", 3, 2), Error, "the layout describes (B, L) = (2, 3)");
}

}  // namespace
}  // namespace hydramix
