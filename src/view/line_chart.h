// SPDX-License-Identifier: Apache-2.0
// Curves over linear axes as an SVG element, to stand inside a page: losses over steps.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hydramix {

struct Line {
  std::string name;                               // in the legend
  std::vector<std::pair<double, double>> points;  // (x, y), finite, by growing x
};

struct LineLabels {
  std::string title, x_label, y_label;
  bool from_zero = true;  // the y axis
};

// "<svg ...>...</svg>". Throws when there is nothing to draw or a point is not finite.
std::string line_chart(const std::vector<Line>& lines, const LineLabels& labels);

}  // namespace hydramix
