// SPDX-License-Identifier: Apache-2.0
// The bounds that docs/math.md proves for 1/z ~ sum_r w_r exp(-t_r z), in long double.
#include "ops/sum_of_exponentials.h"

#include <cmath>
#include <limits>

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

constexpr double kSingle = std::numeric_limits<float>::epsilon();
constexpr double kDoubleEpsilon = std::numeric_limits<double>::epsilon();
// t and w are rounded to double, which alone changes the sum by a few of these.
constexpr double kRounding = 16 * kDoubleEpsilon;

struct Interval {
  double low, high;
};
const std::vector<Interval> kRanges{{1, 1},       {0.5, 1},     {1.3, 200},     {1e-3, 1e6},
                                    {1e-8, 1e12}, {1e-8, 1e35}, {1e-12, 1e-11}, {1e200, 1e300}};

struct Errors {
  long double value = 0, derivative = 0;  // the largest relative errors over the interval
};

Errors errors(const Exponentials& sum, const Interval& range) {
  Errors worst;
  const int points = 400;
  for (int i = 0; i <= points; ++i) {
    const long double log_z =
        std::log(static_cast<long double>(range.low)) * (points - i) / points +
        std::log(static_cast<long double>(range.high)) * i / points;
    const long double z = std::exp(log_z);
    long double value = 0, derivative = 0;
    for (std::size_t r = 0; r < sum.t.size(); ++r) {
      const long double zt = z * sum.t[r], term = z * sum.w[r] * std::exp(-zt);
      value += term;
      derivative += zt * term;
    }
    worst.value = std::max(worst.value, std::abs(value - 1));
    worst.derivative = std::max(worst.derivative, std::abs(derivative - 1));
  }
  return worst;
}

TEST(SumOfExponentials, SumAndDerivativeMeetTheTolerance) {
  for (const double tolerance : {1e-2, 1e-3, 1e-5, kSingle, 1e-10, 1e-13, kDoubleEpsilon}) {
    const ReciprocalRule rule(tolerance);
    for (const auto& range : kRanges) {
      const auto e = errors(rule.on(range.low, range.high), range);
      EXPECT_LE(e.value, tolerance + kRounding) << range.low << ", " << range.high;
      EXPECT_LE(e.derivative, tolerance + kRounding) << range.low << ", " << range.high;
      // A rule far more accurate than requested has superfluous terms.
      if (tolerance > 1e-14) {
        EXPECT_GE(e.derivative, tolerance / 100) << range.low << ", " << range.high;
      }
    }
  }
}

TEST(SumOfExponentials, StepIsTheLargestThatTheBoundAllows) {
  // |Gamma(2 + iy)| by its product with the conjugate's, in the variables of the proof.
  const auto bound = [](double h) {
    double sum = 0;
    for (int k = 1; k < 4; ++k) {
      const double y = 2 * M_PI * k / h;
      sum += 2 * std::sqrt((1 + y * y) * 2 * M_PI * y * std::exp(-M_PI * y) /
                           (1 - std::exp(-2 * M_PI * y)));
    }
    return sum;
  };
  for (const double tolerance : {1e-3, kSingle, 1e-13, kDoubleEpsilon}) {
    const double h = ReciprocalRule(tolerance).step();
    EXPECT_LE(bound(h), tolerance / 2 * (1 + 1e-9));
    EXPECT_GE(bound(h * 1.001), tolerance / 2);
  }
}

TEST(SumOfExponentials, RankIsThatOfTheFormula) {
  for (const double tolerance : {1e-3, kSingle, 1e-13, kDoubleEpsilon}) {
    const ReciprocalRule rule(tolerance);
    for (const auto& [low, high] : kRanges) {
      const auto sum = rule.on(low, high);
      ASSERT_EQ(static_cast<int64_t>(sum.t.size()), rule.rank(low, high));
      ASSERT_EQ(sum.t.size(), sum.w.size());
      for (std::size_t r = 0; r < sum.t.size(); ++r) {
        EXPECT_GT(sum.t[r], 0);
        EXPECT_GT(sum.w[r], 0);
      }
      const double nodes =
          (std::log(high) - std::log(low) + std::log(rule.largest_term() / rule.smallest_tail())) /
          rule.step();
      EXPECT_LE(rule.rank(low, high), rule.gauss_nodes() + std::max(0.0, nodes) + 2);
      EXPECT_GE(rule.rank(low, high), rule.gauss_nodes() + nodes);
    }
  }
  // The table of docs/math.md: about the range of standard normal queries and keys.
  EXPECT_EQ(ReciprocalRule(kSingle).rank(1, 200), 22);
  EXPECT_EQ(ReciprocalRule(kDoubleEpsilon).rank(1, 200), 42);
}

TEST(SumOfExponentials, RefusesBadTolerancesAndIntervals) {
  EXPECT_THROW_WITH(ReciprocalRule(1e-20), Error, "got 1e-20");
  const ReciprocalRule rule(1e-7);
  EXPECT_THROW_WITH(rule.on(0, 1), Error, "must be positive and finite; got [0, 1]");
  EXPECT_THROW_WITH(rule.on(2, 1), Error, "got [2, 1]");
  EXPECT_THROW_WITH(rule.on(1, INFINITY), Error, "got [1, inf]");
}

}  // namespace
}  // namespace hydramix
