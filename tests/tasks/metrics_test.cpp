// SPDX-License-Identifier: Apache-2.0
// Scores against fixed values, to 1e-12. The values were computed from the definitions that
// scikit-learn and SciPy document, in rational arithmetic: precision and recall for F1, covariances
// of indicator vectors for Matthews, sums over the exact values of the doubles for correlations.
#include "tasks/metrics.h"

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "glue/sentence_task.h"
#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using Values = std::vector<double>;

constexpr double kTolerance = 1e-12;

Values plus(double offset, Values values) {
  for (double& v : values) v += offset;
  return values;
}

Values negated(Values values) {
  for (double& v : values) v = -v;
  return values;
}

const Values kPredicted = {0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1};
const Values kActual = {0, 1, 0, 0, 1, 1, 0, 1, 1, 0, 0, 1};

TEST(Metrics, OfTwoClasses) {
  EXPECT_NEAR(accuracy(kPredicted, kActual), 0.75, kTolerance);
  EXPECT_NEAR(f1_score(kPredicted, kActual), 0.76923076923076923, kTolerance);
  EXPECT_NEAR(matthews_correlation(kPredicted, kActual), 0.50709255283710995, kTolerance);
}

TEST(Metrics, OfClassesThatAreUnequallyFrequent) {
  const Values predicted = {0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, actual = {1, 1, 1, 0, 1, 1, 1, 0, 1, 1};
  EXPECT_NEAR(accuracy(predicted, actual), 0.3, kTolerance);
  EXPECT_NEAR(f1_score(predicted, actual), 0.22222222222222222, kTolerance);
  EXPECT_NEAR(matthews_correlation(predicted, actual), 0.16666666666666667, kTolerance);
}

TEST(Metrics, OfThreeClasses) {
  const Values predicted = {0, 1, 2, 2, 1, 0, 0, 2, 1, 1, 2, 0, 2},
               actual = {0, 2, 2, 2, 1, 0, 1, 2, 1, 0, 2, 0, 1};
  EXPECT_NEAR(accuracy(predicted, actual), 0.69230769230769231, kTolerance);
  EXPECT_NEAR(matthews_correlation(predicted, actual), 0.53571428571428571, kTolerance);
  const Values never_one = {0, 0, 2, 2, 0, 2, 2}, with_one = {0, 1, 2, 1, 1, 2, 0};
  EXPECT_NEAR(matthews_correlation(never_one, with_one), 0.25259074277046127, kTolerance);
}

TEST(Metrics, OfManyRows) {
  Values predicted, actual, a, b;
  for (int i = 0; i < 1000; ++i) {
    const int residue = i * i * 31 % 97;
    predicted.push_back(residue % 3);
    actual.push_back((residue + (i % 5 == 0 ? 1 : 0)) % 3);
    a.push_back(residue / 8.0);
    b.push_back(residue / 16.0 + i * 17 % 23);
  }
  EXPECT_NEAR(accuracy(predicted, actual), 0.8, kTolerance);
  EXPECT_NEAR(f1_score(predicted, actual), 0.79545454545454545, kTolerance);
  EXPECT_NEAR(matthews_correlation(predicted, actual), 0.69944358350801583, kTolerance);
  EXPECT_NEAR(pearson_correlation(a, b), 0.26954833833014465, kTolerance);
  EXPECT_NEAR(spearman_correlation(a, b), 0.25412083171892618, kTolerance);
}

TEST(Metrics, PerfectAndInverted) {
  Values inverted;
  for (const double v : kActual) inverted.push_back(1 - v);
  EXPECT_EQ(accuracy(kActual, kActual), 1);
  EXPECT_EQ(f1_score(kActual, kActual), 1);
  EXPECT_EQ(matthews_correlation(kActual, kActual), 1);
  EXPECT_EQ(accuracy(inverted, kActual), 0);
  EXPECT_EQ(f1_score(inverted, kActual), 0);
  EXPECT_EQ(matthews_correlation(inverted, kActual), -1);
  const Values scores = {0.1, 4.2, 2.5, 3.3, 0.7};
  for (const auto correlation : {pearson_correlation, spearman_correlation}) {
    EXPECT_NEAR(correlation(scores, scores), 1, kTolerance);
    EXPECT_NEAR(correlation(scores, negated(scores)), -1, kTolerance);
    EXPECT_LE(std::abs(correlation(scores, scores)), 1);
  }
}

TEST(Metrics, UndefinedIsZero) {
  const Values zeros = {0, 0, 0, 0}, ones = {1, 1, 1, 1}, mixed = {0, 1, 1, 0};
  EXPECT_EQ(accuracy(zeros, zeros), 1);
  EXPECT_EQ(f1_score(zeros, zeros), 0);  // neither predicted nor there
  EXPECT_EQ(f1_score(zeros, mixed), 0);
  EXPECT_EQ(f1_score(ones, ones), 1);
  for (const auto& constant : {zeros, ones, Values(4, 0.1)})
    for (const auto correlation :
         {matthews_correlation, pearson_correlation, spearman_correlation}) {
      EXPECT_EQ(correlation(constant, mixed), 0);
      EXPECT_EQ(correlation(mixed, constant), 0);
      EXPECT_EQ(correlation(constant, constant), 0);
    }
  const Values one = {1}, zero = {0};
  EXPECT_EQ(accuracy(one, one), 1);
  EXPECT_EQ(f1_score(one, one), 1);
  EXPECT_EQ(f1_score(one, zero), 0);
  for (const auto correlation : {matthews_correlation, pearson_correlation, spearman_correlation})
    EXPECT_EQ(correlation(one, one), 0);
}

TEST(Metrics, CorrelationsOfScores) {
  const Values a = {0.0, 1.25, 2.5, 2.5, 3.75, 5.0, 4.2, 0.8},
               b = {0.3, 1.0, 2.75, 2.1, 3.3, 4.6, 4.9, 1.7};
  EXPECT_NEAR(pearson_correlation(a, b), 0.95267754022537966, kTolerance);
  EXPECT_NEAR(spearman_correlation(a, b), 0.94612474691147455, kTolerance);
  EXPECT_NEAR(pearson_correlation(b, a), 0.95267754022537966, kTolerance);
}

TEST(Metrics, TiesShareTheMeanOfTheirRanks) {
  const Values a = {1, 2, 2, 2, 3, 5, 5, 0, 4, 1},
               b = {0.5, 2.25, 1.5, 2.25, 3.0, 2.25, 4.5, 0.5, 0.5, 1.0};
  EXPECT_NEAR(pearson_correlation(a, b), 0.63047961083631641, kTolerance);
  EXPECT_NEAR(spearman_correlation(a, b), 0.63292406926790103, kTolerance);
}

TEST(Metrics, CorrelationsOfValuesFarFromZeroAndOfAnySize) {
  const Values near = {0.1, 0.7, 0.2, 0.9, 0.4, 0.5, 0.3};
  const Values a = plus(1e8, near), b = plus(-1e8, {0.3, 0.5, 0.1, 1.1, 0.2, 0.6, 0.4});
  EXPECT_NEAR(pearson_correlation(a, b), 0.84445370002951107, kTolerance);
  EXPECT_NEAR(spearman_correlation(a, b), 0.78571428571428571, kTolerance);
  EXPECT_NEAR(pearson_correlation(a, Values{3, 1, 4, 1, 5, 9, 2}), -0.26646706415715986,
              kTolerance);
  const Values tiny = {1e-200, 3e-200, 2e-200, 5e-200}, huge = {1e200, 4e200, 3e200, 2e200};
  EXPECT_NEAR(pearson_correlation(tiny, huge), 0.22677868380553634, kTolerance);
  EXPECT_NEAR(spearman_correlation(tiny, huge), 0.4, kTolerance);
}

TEST(Metrics, ScoresAreThoseOfTheTaskAndTheirMean) {
  const auto mrpc = scores(sentence_task("MRPC"), kPredicted, kActual);
  ASSERT_EQ(mrpc.size(), 3u);
  EXPECT_NEAR(mrpc["accuracy"].get<double>(), 0.75, kTolerance);
  EXPECT_NEAR(mrpc["f1"].get<double>(), 0.76923076923076923, kTolerance);
  EXPECT_NEAR(mrpc["score"].get<double>(), (0.75 + 0.76923076923076923) / 2, kTolerance);
  EXPECT_EQ(mrpc.begin().key(), "accuracy");
  const auto cola = scores(sentence_task("CoLA"), kPredicted, kActual);
  EXPECT_NEAR(cola["matthews"].get<double>(), 0.50709255283710995, kTolerance);
  EXPECT_EQ(cola["score"], cola["matthews"]);
  const auto sts = scores(sentence_task("STS-B"), Values{1, 2, 3, 5}, Values{1, 2, 4, 3});
  EXPECT_EQ(sts.size(), 4u);
  EXPECT_NEAR(sts["spearman"].get<double>(), 0.8, kTolerance);
  // The published code (goombalab/hydra 55bef74, finetuning_jobs.py: SpearmanCorrCoef) has no
  // other.
  EXPECT_EQ(sts["score"], sts["spearman"]);
  EXPECT_NEAR(sts["mean"].get<double>(),
              (sts["pearson"].get<double>() + sts["spearman"].get<double>()) / 2, kTolerance);
  EXPECT_EQ(scores(sentence_task("RTE"), kPredicted, kActual).dump(),
            R"({"accuracy":0.75,"score":0.75})");
}

TEST(Metrics, LengthsAndNumbersAreChecked) {
  const Values two = {0, 1}, three = {0, 1, 1};
  EXPECT_THROW_WITH(accuracy(two, three), Error, "2 predictions and 3 labels");
  EXPECT_THROW_WITH(spearman_correlation({}, {}), Error, "0 predictions and 0 labels");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW_WITH(pearson_correlation(Values{1, nan}, two), Error, "prediction 1 is nan");
  EXPECT_THROW_WITH(accuracy(two, Values{nan, 1}), Error, "label 0 is nan");
}

// Class 0: 1 hit of 2 predicted and 2 actual; class 1: 1 of 2 and 1; class 2: 0 of 0 and 1.
TEST(Metrics, MacroF1IsTheMeanOverClassesThatOccur) {
  EXPECT_NEAR(macro_f1_score(Values{0, 0, 1, 1}, Values{0, 2, 0, 1}), (0.5 + 2.0 / 3 + 0) / 3,
              kTolerance);
  EXPECT_EQ(macro_f1_score(Values{1, 1}, Values{1, 1}), 1);
}

TEST(Metrics, RootMeanSquareErrorIsInTheUnitOfTheScores) {
  EXPECT_NEAR(root_mean_square_error(Values{1, 5}, Values{4, 1}), std::sqrt(12.5), kTolerance);
  EXPECT_FALSE(is_share("rmse") || is_share("loss"));
  EXPECT_TRUE(is_share("accuracy"));
}

}  // namespace
}  // namespace hydramix
