// SPDX-License-Identifier: Apache-2.0
// One row for each thing compared, over one linear axis, as SVG: a bar from the lowest to the
// highest value, a dot for each value, a tick at the mean, and the mean as a number at the right. A
// row beyond the axis is an arrow at its end. Readable on light and dark backgrounds
// (view/theme.h).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hydramix {

struct DotRow {
  std::string name;
  double mean = 0, low = 0, high = 0;  // low and high: the ends of the bar
  std::vector<double> values = {};     // the dots
  bool strong = false;                 // in colour
};

struct DotPlotOptions {
  std::string title = {}, x_label = {}, mean_label = {};
  int64_t decimals = 3;      // of the means
  double low = 0, high = 0;  // of the axis; equal: from the rows
};

// Throws when there is no row, a number is not finite, or a mean is not between low and high.
std::string dot_plot(const std::vector<DotRow>& rows, const DotPlotOptions& options);

// Writes the same to a file, atomically.
void write_dot_plot(const std::filesystem::path& path, const std::vector<DotRow>& rows,
                    const DotPlotOptions& options);

}  // namespace hydramix
