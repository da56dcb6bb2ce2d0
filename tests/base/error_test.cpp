// SPDX-License-Identifier: Apache-2.0
#include "hydramix/error.h"

#include <gtest/gtest.h>

namespace hydramix {
namespace {

// Fails as a stream does that has no memory for a part.
struct LostPart {};
std::ostream& operator<<(std::ostream& out, const LostPart&) {
  out.setstate(std::ios::badbit);
  return out;
}

TEST(Concat, LosesNoPartOfAText) {
  EXPECT_EQ(concat("a", 1, '-', 2.5), "a1-2.5");
  EXPECT_THROW(concat("a", LostPart(), "b"), std::ios_base::failure);
}

}  // namespace
}  // namespace hydramix
