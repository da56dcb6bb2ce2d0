// SPDX-License-Identifier: Apache-2.0
#include "tasks/retrieval.h"

#include "support/expect.h"

namespace hydramix {
namespace {

TEST(Retrieval, RanksCountBetterAndEqualCandidates) {
  const std::vector<double> similarities{0.1, 0.9, 0.5, 0.5};
  const std::vector<char> none(4);
  EXPECT_EQ(rank_of(similarities, 1, none), 1);
  EXPECT_EQ(rank_of(similarities, 2, none), 3);  // a tie counts against it
  EXPECT_EQ(rank_of(similarities, 0, none), 4);
  EXPECT_EQ(rank_of(similarities, 2, {0, 0, 0, 1}), 2);  // the same text does not
}

TEST(Retrieval, ScoresAreMeansOverQueries) {
  const auto scores = retrieval_scores(std::vector<int64_t>{1, 2, 10, 40});
  EXPECT_DOUBLE_EQ(scores.recall_at_1, 0.25);
  EXPECT_DOUBLE_EQ(scores.recall_at_10, 0.75);
  EXPECT_DOUBLE_EQ(scores.mrr, (1 + 0.5 + 0.1 + 0.025) / 4);
  EXPECT_EQ(retrieval_scores({}).mrr, 0);
}

}  // namespace
}  // namespace hydramix
