// SPDX-License-Identifier: Apache-2.0
// An axis of a chart: the interval that it shows, and its ticks.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace hydramix {

struct ChartAxis {
  bool logarithmic = false;
  double low = 0, high = 1, pixels = 1;
  std::vector<double> ticks = {}, minor_ticks = {};  // with labels and without

  double place(double value) const;  // 0 at `low`, `pixels` at `high`
  std::string tick_label(double value) const;
};

// From `low` to `high`, with about five round ticks.
ChartAxis linear_axis(double low, double high, double pixels);
// The values and a little more. Ticks at 1, 2, 5, 10, ...; beyond two decades at powers of ten.
ChartAxis logarithmic_axis(double lowest, double highest, double pixels);
// The same with ticks at the values themselves: lengths, which are powers of two.
ChartAxis logarithmic_axis_at(const std::set<double>& values, double pixels);

}  // namespace hydramix
