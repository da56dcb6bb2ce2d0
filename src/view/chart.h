// SPDX-License-Identifier: Apache-2.0
// Lines over linear or logarithmic axes as SVG: panels side by side over the same axes, with one
// legend at their right. Lines of a group share a colour and differ in their dashes. Logarithmic
// panels show two grey guides, one linear and one quadratic.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace hydramix {

struct ChartLine {
  std::string name;                               // the same in every panel
  std::string group;                              // decides the colour; empty: a group of its own
  std::string note;                               // in the legend, one column per panel
  std::vector<std::pair<double, double>> points;  // (x, y), by growing x
};

struct ChartPanel {
  std::string title;
  std::string note_label;  // heads the column of the notes; short
  std::vector<ChartLine> lines;
};

struct ChartOptions {
  std::string title, x_label, y_label;
  bool logarithmic = false;  // both axes
  bool from_zero = true;     // begin a linear y axis at zero
};

// "<svg ...>...</svg>". Throws when there is nothing to draw, a point is not finite, or a
// logarithmic axis gets a number that is not positive.
std::string chart(const std::vector<ChartPanel>& panels, const ChartOptions& options);

// Writes the same to a file, atomically.
void write_chart(const std::filesystem::path& path, const std::vector<ChartPanel>& panels,
                 const ChartOptions& options);

}  // namespace hydramix
