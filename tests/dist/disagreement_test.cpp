// SPDX-License-Identifier: Apache-2.0
#include "dist/disagreement.h"

#include <gtest/gtest.h>

namespace hydramix {
namespace {

TEST(Disagreement, ShowsOnlyTheKeysThatDiffer) {
  const std::string a = R"({"long": "xxxxxxxxxxxxxxxxxxxx", "train": {"rate": 0.1, "steps": 5}})";
  const std::string b = R"({"long": "xxxxxxxxxxxxxxxxxxxx", "train": {"rate": 0.2, "steps": 5}})";
  const std::string c = R"({"long": "xxxxxxxxxxxxxxxxxxxx", "train": {"rate": 0.1}, "new": [1]})";
  const Disagreement two(a, {b});
  EXPECT_EQ(two.shown(a), "train.rate=0.1");
  EXPECT_EQ(two.shown(b), "train.rate=0.2");
  const Disagreement three(a, {b, c});
  EXPECT_EQ(three.shown(a), "no new.0, train.rate=0.1, train.steps=5");
  EXPECT_EQ(three.shown(c), "new.0=1, train.rate=0.1, no train.steps");
}

// A key at the end of long options must not be cut off.
TEST(Disagreement, FindsTheKeyInLongOptions) {
  std::string a = "{", b;
  for (int k = 0; k < 500; ++k) a += "\"key" + std::to_string(k) + "\": 0, ";
  b = a + "\"seed\": 2}";
  a += "\"seed\": 1}";
  EXPECT_EQ(Disagreement(a, {b}).shown(b), "seed=2");
}

TEST(Disagreement, CountsTheKeysThatItLeavesOut) {
  std::string a = "{\"k\": 0", b = "{\"k\": 0";
  for (int k = 0; k < 20; ++k) {
    a += ", \"key" + std::to_string(k) + "\": 0";
    b += ", \"key" + std::to_string(k) + "\": 1";
  }
  const std::string shown = Disagreement(a + "}", {b + "}"}).shown(b + "}");
  EXPECT_TRUE(shown.ends_with(" and 12 more")) << shown;
}

TEST(Disagreement, QuotesWhatIsNoObject) {
  EXPECT_EQ(Disagreement("red", {"blue"}).shown("blue"), "\"blue\"");
  EXPECT_EQ(Disagreement("{\"a\": 1}", {"blue"}).shown("{\"a\": 1}"), "\"{\\\"a\\\": 1}\"");
}

}  // namespace
}  // namespace hydramix
