// SPDX-License-Identifier: Apache-2.0
// Curves on logarithmic axes as an SVG file: panels side by side over the same axes, one legend at
// their right. Curves of a group share a colour and differ in their dashes. Two grey guides show
// what is linear and what is quadratic.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace hydramix {

struct Curve {
  std::string name;                               // the same in every panel
  std::string group;                              // which colour
  std::string note;                               // in the legend, a column for each panel
  std::vector<std::pair<double, double>> points;  // (x, y), all positive
};

struct CurvePanel {
  std::string title;
  std::string note_label;  // what the notes of its curves are; short
  std::vector<Curve> curves;
};

struct CurveLabels {
  std::string title, x_label, y_label;
};

// Writes the drawing; the file appears whole or not at all. Throws when there is nothing to draw or
// a point cannot be placed.
void write_curves(const std::filesystem::path& path, const std::vector<CurvePanel>& panels,
                  const CurveLabels& labels);

}  // namespace hydramix
