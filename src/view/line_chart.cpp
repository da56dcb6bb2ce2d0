// SPDX-License-Identifier: Apache-2.0
#include "view/line_chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "hydramix/error.h"
#include "view/xml_text.h"

namespace hydramix {
namespace {

constexpr double kChartWidth = 760, kChartHeight = 320, kLeftMargin = 56, kRightMargin = 150,
                 kTopMargin = 34, kBottomMargin = 46;
// Distinct for readers who confuse red and green too (Okabe and Ito).
constexpr std::array kColours{"#0072b2", "#d55e00", "#cc79a7", "#009e73", "#e69f00", "#56b4e9"};

struct LinearAxis {
  double low, high, pixels_low, pixels_high;
  double place(double value) const {
    return pixels_low + (value - low) / (high - low) * (pixels_high - pixels_low);
  }
};

// Round numbers inside [low, high], about five.
std::vector<double> ticks(double low, double high) {
  const double rough = (high - low) / 5;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) {
      step = factor * power;
      break;
    }
  std::vector<double> found;
  for (double k = std::ceil(low / step); k * step <= high + 1e-9 * step; ++k)
    found.push_back(k * step);
  return found;
}

std::string text(double x, double y, const char* anchor, const std::string& words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     xml_escaped(words));
}

std::string segment(double x1, double y1, double x2, double y2, const char* colour) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2,
      y2, colour);
}

}  // namespace

std::string line_chart(const std::vector<Line>& lines, const LineLabels& labels) {
  double x_low = INFINITY, x_high = -INFINITY, y_low = INFINITY, y_high = -INFINITY;
  for (const Line& line : lines)
    for (const auto& [x, y] : line.points) {
      HYDRAMIX_CHECK(std::isfinite(x) && std::isfinite(y), "line chart: '", line.name,
                     "' has a point that is not finite.");
      x_low = std::min(x_low, x);
      x_high = std::max(x_high, x);
      y_low = std::min(y_low, y);
      y_high = std::max(y_high, y);
    }
  HYDRAMIX_CHECK(x_low <= x_high, "line chart: there is nothing to draw.");
  if (labels.from_zero) y_low = std::min(y_low, 0.0);
  if (x_high == x_low) x_high = x_low + 1;
  if (y_high == y_low) y_high = y_low + 1;
  const LinearAxis x{x_low, x_high, kLeftMargin, kChartWidth - kRightMargin},
      y{y_low, y_high, kChartHeight - kBottomMargin, kTopMargin};

  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\" "
      "fill=\"#1c202a\">\n<title>{2}</title>\n",
      kChartWidth, kChartHeight, xml_escaped(labels.title));
  out += text(kLeftMargin, kTopMargin - 14, "start", labels.title);
  for (const double tick : ticks(y_low, y_high)) {
    out +=
        segment(kLeftMargin, y.place(tick), kChartWidth - kRightMargin, y.place(tick), "#e4e7ec");
    out += text(kLeftMargin - 6, y.place(tick) + 4, "end", fmt::format("{:.4g}", tick));
  }
  for (const double tick : ticks(x_low, x_high))
    out += text(x.place(tick), kChartHeight - kBottomMargin + 18, "middle",
                fmt::format("{:.6g}", tick));
  out +=
      segment(kLeftMargin, y.place(y_low), kChartWidth - kRightMargin, y.place(y_low), "#626976");
  out += text((kLeftMargin + kChartWidth - kRightMargin) / 2, kChartHeight - 10, "middle",
              labels.x_label);
  out += fmt::format(
      "<text transform=\"translate(14 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}"
      "</text>\n",
      (kTopMargin + kChartHeight - kBottomMargin) / 2, xml_escaped(labels.y_label));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const char* colour = kColours[i % kColours.size()];
    std::string path;
    for (const auto& [px, py] : lines[i].points)
      path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x.place(px), y.place(py));
    out +=
        fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"/>\n",
                    path, colour);
    const double row = kTopMargin + 18 * static_cast<double>(i);
    out +=
        segment(kChartWidth - kRightMargin + 14, row, kChartWidth - kRightMargin + 36, row, colour);
    out += text(kChartWidth - kRightMargin + 42, row + 4, "start", lines[i].name);
  }
  return out + "</svg>\n";
}

}  // namespace hydramix
