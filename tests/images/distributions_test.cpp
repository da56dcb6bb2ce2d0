// SPDX-License-Identifier: Apache-2.0
#include "images/distributions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace hydramix {
namespace {

// The largest distance between the empirical and the true distribution function (Kolmogorov and
// Smirnov); above 2 / sqrt(n) with probability 0.0007.
template <class Function>
double ks_distance(std::vector<double> values, Function distribution) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double f = distribution(values[i]);
    distance =
        std::max({distance, f - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - f});
  }
  return distance;
}

double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// By Simpson's rule, and by symmetry only for x <= 1/2. The density is t^(a-1) (1 - t)^(a-1). For a
// below 1 the variable is u = t^a, which removes the pole at 0: (1 - u^(1/a))^(a-1) du / a.
double beta_distribution(double x, double a) {
  if (x > 0.5) return 1 - beta_distribution(1 - x, a);
  const auto integral = [a](double end) {
    constexpr int kSteps = 64;
    const double top = a < 1 ? std::pow(end, a) : end, h = top / kSteps;
    double sum = 0;
    for (int i = 0; i <= kSteps; ++i) {
      const double u = i * h;
      const double f = std::pow(a < 1 ? 1 - std::pow(u, 1 / a) : u * (1 - u), a - 1);
      sum += f * (i == 0 || i == kSteps ? 1 : i % 2 == 1 ? 4 : 2);
    }
    return sum * h / 3;
  };
  return 0.5 * integral(x) / integral(0.5);
}

constexpr std::size_t kDraws = 3000;
const double kAllowed = 2 / std::sqrt(static_cast<double>(kDraws));

TEST(Distributions, NormalNumbersAreNormal) {
  std::vector<double> one_by_one(kDraws);
  Random random(1, 2, 3);
  for (auto& value : one_by_one) value = normal(random);
  EXPECT_LT(ks_distance(one_by_one, normal_distribution), kAllowed);

  for (const std::size_t count : {kDraws, kDraws - 1}) {  // an odd number leaves half a pair unused
    std::vector<float> values(count);
    fill_normal(random, values);
    EXPECT_LT(ks_distance({values.begin(), values.end()}, normal_distribution), kAllowed);
  }
}

TEST(Distributions, BothNumbersOfAPairAreUncorrelated) {
  std::vector<float> values(20000);
  Random random(4, 5, 6);
  fill_normal(random, values);
  double product = 0;
  for (std::size_t i = 0; i < values.size(); i += 2) product += values[i] * values[i + 1];
  EXPECT_NEAR(product / 10000, 0, 5 / std::sqrt(10000.0));
}

TEST(Distributions, BetaNumbersFollowTheBetaDistribution) {
  for (const double a : {0.2, 0.8, 1.0, 2.5, 30.0}) {
    std::vector<double> values(kDraws);
    Random random(7, 8, 9);
    for (auto& value : values) value = symmetric_beta(random, a);
    EXPECT_LT(ks_distance(values, [a](double x) { return beta_distribution(x, a); }), kAllowed)
        << a;
  }
}

TEST(Distributions, ATinyBetaParameterGivesZerosAndOnes) {
  Random random(7, 8, 9);
  int64_t ends = 0, low = 0;
  for (int i = 0; i < 1000; ++i) {
    const double value = symmetric_beta(random, 1e-4);
    ASSERT_TRUE(value >= 0 && value <= 1);
    ends += value < 1e-9 || value > 1 - 1e-9;
    low += value < 0.5;
  }
  EXPECT_GT(ends, 980);
  EXPECT_NEAR(static_cast<double>(low), 500, 5 * std::sqrt(250.0));
}

}  // namespace
}  // namespace hydramix
