// SPDX-License-Identifier: Apache-2.0
// Suggestions for mistyped names: a likely slip is corrected, and a word that resembles no known
// name gets no suggestion.
#include "base/spelling.h"

#include <gtest/gtest.h>

namespace hydramix {
namespace {

const std::vector<std::string> kMixers = {"attention", "cauchy",      "dense",         "low_rank",
                                          "toeplitz",  "vandermonde", "quasiseparable"};

TEST(Nearest, FindsOneSlipOfEachKind) {
  EXPECT_EQ(nearest("dense", kMixers), "dense");
  EXPECT_EQ(nearest("denze", kMixers), "dense");          // replaced
  EXPECT_EQ(nearest("toepltz", kMixers), "toeplitz");     // left out
  EXPECT_EQ(nearest("cauuchy", kMixers), "cauchy");       // doubled
  EXPECT_EQ(nearest("atetntion", kMixers), "attention");  // swapped
}

TEST(Nearest, SwappedNeighboursAreOneSlipNotTwo) {
  // If a swap counted as two replacements, the first candidate would tie and win.
  EXPECT_EQ(nearest("abcd", {"xbcx", "abdc"}), "abdc");
  EXPECT_EQ(nearest("ab", {"xy", "ba"}), "ba");
}

TEST(Nearest, CaseAndTheKindOfDashCostNothing) {
  EXPECT_EQ(nearest("Low-Rank", kMixers), "low_rank");
  EXPECT_EQ(nearest("TOEPLITZ", kMixers), "toeplitz");
}

TEST(Nearest, APrefixFindsTheName) {
  EXPECT_EQ(nearest("quasi", kMixers), "quasiseparable");
  EXPECT_EQ(nearest("qu", kMixers), "");
  // Among prefixes the nearest name, whatever their order.
  EXPECT_EQ(nearest("truncat", {"truncation_direction", "truncate"}), "truncate");
}

TEST(Nearest, AWordUnlikeAllNamesHasNoSuggestion) {
  EXPECT_EQ(nearest("butterfly", kMixers), "");
  EXPECT_EQ(nearest("dense", {}), "");
  EXPECT_EQ(nearest("", kMixers), "");
}

TEST(Nearest, TheFirstOfEquallyNearNamesWins) {
  EXPECT_EQ(nearest("bat", {"cat", "hat"}), "cat");
  EXPECT_EQ(nearest("bat", {"hat", "cat"}), "hat");
}

TEST(DidYouMean, IsASentenceOrNothing) {
  EXPECT_EQ(did_you_mean("denze", kMixers), " Did you mean 'dense'?");
  EXPECT_EQ(did_you_mean("butterfly", kMixers), "");
}

TEST(Join, SeparatesWords) {
  EXPECT_EQ(join({}), "");
  EXPECT_EQ(join({"a"}), "a");
  EXPECT_EQ(join({"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(join({"a", "b"}, "|"), "a|b");
}

}  // namespace
}  // namespace hydramix
