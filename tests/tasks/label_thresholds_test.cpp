// SPDX-License-Identifier: Apache-2.0
#include "tasks/label_thresholds.h"

#include "support/expect.h"

namespace hydramix {
namespace {

using Numbers = std::vector<double>;

double threshold_of(const Numbers& probabilities, const Numbers& actual) {
  return best_thresholds({probabilities, 1}, {actual, 1}).at(0);
}

TEST(LabelThresholds, SeparateWhatCanBeSeparated) {
  EXPECT_DOUBLE_EQ(threshold_of({0.1, 0.2, 0.3, 0.4}, {0, 0, 1, 1}), 0.25);
  EXPECT_DOUBLE_EQ(threshold_of({0.9, 0.8, 0.7}, {1, 0, 0}), 0.85);
  // F1 is 4/5 with three predicted, 2/3 with one, 2/3 with four.
  EXPECT_DOUBLE_EQ(threshold_of({0.9, 0.6, 0.5, 0.1}, {1, 0, 1, 0}), 0.3);
}

TEST(LabelThresholds, TieGoesToTheNearestToAHalf) {
  // F1 is 2/3 after the first and after the fourth.
  EXPECT_DOUBLE_EQ(threshold_of({0.9, 0.8, 0.7, 0.5, 0.1}, {1, 0, 0, 1, 0}), 0.3);
  EXPECT_EQ(threshold_of({0.9, 0.8}, {0, 0}), 0.5);
  EXPECT_EQ(threshold_of({0.2, 0.1}, {1, 1}), 0.5);
}

TEST(LabelThresholds, NoThresholdStandsBetweenEqualProbabilities) {
  EXPECT_DOUBLE_EQ(threshold_of({0.6, 0.6, 0.2}, {1, 0, 0}), 0.4);
}

TEST(LabelScores, AreOfAllDecisionsOfLabelsAndOfExamples) {
  // Two labels, three examples. Label 0: 1 hit, 1 false, 0 missed. Label 1: 1 hit, 0, 1 missed.
  const Numbers probabilities{0.9, 0.9, 0.8, 0.1, 0.1, 0.2}, actual{1, 1, 0, 0, 0, 1};
  const auto scores = label_scores({probabilities, 2}, {actual, 2}, Numbers{0.5, 0.5});
  EXPECT_DOUBLE_EQ(scores.micro_f1, 4.0 / 6);
  EXPECT_DOUBLE_EQ(scores.macro_f1, 2.0 / 3);
  EXPECT_DOUBLE_EQ(scores.exact, 1.0 / 3);
  // At least the threshold is enough.
  EXPECT_DOUBLE_EQ(label_scores({probabilities, 2}, {actual, 2}, Numbers{0.9, 0.2}).exact, 1);
}

}  // namespace
}  // namespace hydramix
