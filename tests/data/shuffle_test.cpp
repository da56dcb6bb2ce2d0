// SPDX-License-Identifier: Apache-2.0
#include "data/shuffle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace hydramix {
namespace {

TEST(RandomTest, DependsOnEveryNumberOfItsKey) {
  Random a(1, 2, 3), same(1, 2, 3);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(a.next(), same.next());
  std::set<uint64_t> firsts;
  for (uint64_t i = 0; i < 100; ++i)
    for (uint64_t j = 0; j < 100; ++j) firsts.insert(Random(i, j, 0).next());
  EXPECT_EQ(firsts.size(), 10000u);
}

TEST(RandomTest, UniformIsUniform) {
  Random random(7, 0, 0);
  std::vector<double> counts(16);
  constexpr int kDraws = 160000;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    counts[static_cast<std::size_t>(16 * u)] += 1;
  }
  // Each count is binomial with mean 10000 and deviation 97: five deviations.
  for (const double count : counts) EXPECT_NEAR(count, kDraws / 16, 485);
}

TEST(Shuffle, IsAPermutationAtEverySize) {
  for (const int64_t n : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4099}) {
    std::vector<char> seen(static_cast<std::size_t>(n));
    const Shuffle shuffle(n, 5, 0);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = shuffle(i);
      ASSERT_GE(at, 0);
      ASSERT_LT(at, n);
      ASSERT_EQ(seen[static_cast<std::size_t>(at)]++, 0) << "n " << n << ", place " << i;
    }
  }
}

TEST(Shuffle, DiffersByEpochAndSeedAndMixesWell) {
  const int64_t n = 10000;
  const Shuffle one(n, 5, 0), two(n, 5, 1), three(n, 6, 0);
  int64_t same_two = 0, same_three = 0, ascents = 0;
  for (int64_t i = 0; i < n; ++i) {
    same_two += one(i) == two(i);
    same_three += one(i) == three(i);
    ascents += i > 0 && one(i) > one(i - 1);
  }
  // Two random permutations agree at one position on average; half of all steps go up, with a
  // deviation of 29.
  EXPECT_LT(same_two, 10);
  EXPECT_LT(same_three, 10);
  EXPECT_NEAR(static_cast<double>(ascents), 5000, 150);
}

}  // namespace
}  // namespace hydramix
