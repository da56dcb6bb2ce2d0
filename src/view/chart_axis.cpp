// SPDX-License-Identifier: Apache-2.0
#include "view/chart_axis.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

namespace hydramix {
namespace {

constexpr double kLogMargin = 1.06;  // range of a logarithmic axis over that of its values
constexpr double kManyDecades = 2;   // more have labels at powers of ten only
constexpr std::size_t kMostValueTicks = 8;

std::vector<double> round_ticks(double low, double high) {
  const double rough = (high - low) / 5;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= rough) step = factor * power;
  std::vector<double> found;
  for (double k = std::ceil(low / step); k * step <= high + 1e-9 * step; ++k)
    found.push_back(k * step);
  return found;
}

}  // namespace

double ChartAxis::place(double value) const {
  const double share =
      logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return pixels * share;
}

// 65536 -> 64k on a logarithmic axis, where lengths are powers of two.
std::string ChartAxis::tick_label(double value) const {
  const auto whole = static_cast<int64_t>(std::llround(value));
  if (logarithmic && whole >= 1024 && whole % 1024 == 0) return fmt::format("{}k", whole / 1024);
  return fmt::format("{:.6g}", value);
}

ChartAxis linear_axis(double low, double high, double pixels) {
  if (high == low) high = low + 1;
  return {false, low, high, pixels, round_ticks(low, high), {}};
}

ChartAxis logarithmic_axis(double lowest, double highest, double pixels) {
  ChartAxis axis{true, lowest / kLogMargin, highest * kLogMargin, pixels};
  const bool many = std::log10(axis.high / axis.low) > kManyDecades;
  const double first = std::floor(std::log10(axis.low));
  for (double power = first; std::pow(10, power) <= axis.high; ++power)
    for (int digit = 1; digit < 10; ++digit) {
      const double value = digit * std::pow(10, power);
      if (value < axis.low || value > axis.high) continue;
      const bool labelled = digit == 1 || (!many && (digit == 2 || digit == 5));
      (labelled ? axis.ticks : axis.minor_ticks).push_back(value);
    }
  return axis;
}

ChartAxis logarithmic_axis_at(const std::set<double>& values, double pixels) {
  ChartAxis axis{true, *values.begin() / 1.2, *values.rbegin() * 1.2, pixels};
  const std::size_t step = (values.size() + kMostValueTicks - 1) / kMostValueTicks;
  std::size_t i = 0;
  for (const double value : values)
    if (i++ % step == 0) axis.ticks.push_back(value);
  return axis;
}

}  // namespace hydramix
