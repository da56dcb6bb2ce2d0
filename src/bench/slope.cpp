// SPDX-License-Identifier: Apache-2.0
#include "bench/slope.h"

#include <cmath>

namespace hydramix::bench {

std::optional<double> log_log_slope(const Points& points) {
  if (points.empty()) return std::nullopt;
  const auto n = static_cast<double>(points.size());
  double mean_x = 0, mean_y = 0;
  for (const auto& [x, y] : points) mean_x += std::log(x) / n, mean_y += std::log(y) / n;
  double xx = 0, xy = 0;
  for (const auto& [x, y] : points) {
    const double dx = std::log(x) - mean_x;
    xx += dx * dx;
    xy += dx * (std::log(y) - mean_y);
  }
  if (xx == 0) return std::nullopt;
  return xy / xx;
}

}  // namespace hydramix::bench
