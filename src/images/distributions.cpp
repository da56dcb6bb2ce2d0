// SPDX-License-Identifier: Apache-2.0
#include "images/distributions.h"

#include <cmath>
#include <numbers>

namespace hydramix {
namespace {

double above_zero(Random& random) { return 1.0 - random.uniform(); }  // in (0, 1]

// Gamma(a), a >= 1.
double gamma_number(Random& random, double a) {
  const double d = a - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal(random), root = 1 + c * x, v = root * root * root;
    if (root > 0 && std::log(above_zero(random)) < 0.5 * x * x + d - d * v + d * std::log(v))
      return d * v;
  }
}

}  // namespace

double normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(above_zero(random)));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

void fill_normal(Random& random, std::span<float> values) {
  constexpr auto kTurn = static_cast<float>(2 * std::numbers::pi);
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const float radius = std::sqrt(-2 * std::log(static_cast<float>(above_zero(random))));
    const float angle = kTurn * static_cast<float>(random.uniform());
    values[i] = radius * std::cos(angle);
    if (i + 1 < values.size()) values[i + 1] = radius * std::sin(angle);
  }
}

double symmetric_beta(Random& random, double a) {
  if (a > 1) {
    const double first = gamma_number(random, a), second = gamma_number(random, a);
    return first / (first + second);
  }
  while (true) {
    // Logarithms: u^(1/a) underflows for small a.
    const double x = std::log(above_zero(random)) / a, y = std::log(above_zero(random)) / a;
    if (std::exp(x) + std::exp(y) <= 1) return 1 / (1 + std::exp(y - x));
  }
}

}  // namespace hydramix
