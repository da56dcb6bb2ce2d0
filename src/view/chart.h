// SPDX-License-Identifier: Apache-2.0
// Lines over linear or logarithmic axes as SVG: panels one below the other over the same axes, with
// one legend below them. Narrow enough for a telephone, readable on light and on dark backgrounds.
// A line may have a range around it, such as that of several seeds. Lines in the background are
// thin and grey, and share a legend entry.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace hydramix {

struct ChartLine {
  std::string name;       // the same in every panel
  std::string note = {};  // in the legend, after the name: one per panel
  std::vector<std::pair<double, double>> points = {};  // (x, y), by growing x
  std::vector<std::pair<double, double>> range = {};   // (lowest, highest) at each point, or empty
  bool strong = false;                                 // a thicker line
  bool background = false;
  bool dashed = false;  // may have the name, and so the colour, of a line that is not dashed
};

struct ChartPanel {
  std::string title;
  std::vector<ChartLine> lines;
};

struct ChartOptions {
  std::string title = {}, x_label = {}, y_label = {};
  std::string background_label = {};  // of the lines in the background
  bool log_x = false, log_y = false;
  bool round_x_ticks = false;  // on a logarithmic x axis; otherwise its ticks are at the points
  // The names of lines by colour, so that charts of the same things have the same colours. Others
  // follow.
  std::vector<std::string> colours = {};
  bool from_zero = true;  // begin a linear y axis at zero
  bool guides = false;    // grey lines that grow with x and x^2; needs logarithmic axes
  bool hover = false;     // a browser shows the values of the point under the mouse
};

// "<svg ...>...</svg>". Throws when there is nothing to draw, a point is not finite, or a
// logarithmic axis gets a number that is not positive.
std::string chart(const std::vector<ChartPanel>& panels, const ChartOptions& options);

// Writes the same to a file, atomically.
void write_chart(const std::filesystem::path& path, const std::vector<ChartPanel>& panels,
                 const ChartOptions& options);

}  // namespace hydramix
