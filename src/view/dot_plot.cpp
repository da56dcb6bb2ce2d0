// SPDX-License-Identifier: Apache-2.0
#include "view/dot_plot.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "hydramix/error.h"
#include "view/chart_axis.h"
#include "view/svg_elements.h"
#include "view/text.h"
#include "view/theme.h"
#include "view/xml_text.h"

namespace hydramix {
namespace {

constexpr double kDotLeft = 150, kDotPlotWidth = 310, kDotRight = 70, kDotRow = 28;
constexpr double kDotTop = 62, kDotBottom = 54;
constexpr Rgb kStrongDots{0, 114, 178};

void check_rows(const std::vector<DotRow>& rows) {
  HYDRAMIX_CHECK(!rows.empty(), "dot plot: there is no row to draw.");
  for (const DotRow& row : rows) {
    bool finite = std::isfinite(row.low) && std::isfinite(row.high);
    for (const double value : row.values) finite = finite && std::isfinite(value);
    HYDRAMIX_CHECK(finite, "dot plot: '", row.name, "' has a number that is not finite.");
    HYDRAMIX_CHECK(row.low <= row.mean && row.mean <= row.high, "dot plot: the mean of '", row.name,
                   "', ", row.mean, ", is not between ", row.low, " and ", row.high, ".");
  }
}

ChartAxis axis_of(const std::vector<DotRow>& rows, const DotPlotOptions& options) {
  if (options.low < options.high) return linear_axis(options.low, options.high, kDotPlotWidth);
  double low = rows.front().low, high = rows.front().high;
  for (const DotRow& row : rows) {
    low = std::min(low, row.low);
    high = std::max(high, row.high);
  }
  const double margin = 0.05 * (high - low);
  return linear_axis(low - margin, high + margin, kDotPlotWidth);
}

std::string bar(double x1, double x2, double y, double thickness, const std::string& style) {
  return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {}/>\n",
                     x1, y - thickness / 2, x2 - x1, thickness, style);
}

std::string row_elements(const DotRow& row, const ChartAxis& axis, double y) {
  const std::string colour = hex(row.strong ? kStrongDots : kMuted);
  const auto x_of = [&](double value) { return kDotLeft + axis.place(value); };
  if (row.low > axis.high || row.high < axis.low) {
    const bool right = row.low > axis.high;
    const double tip = right ? kDotLeft + kDotPlotWidth - 2 : kDotLeft + 2;
    const double tail = right ? tip - 26 : tip + 26, head = right ? tip - 9 : tip + 9;
    return fmt::format(
               "<polygon points=\"{0:.1f},{1:.1f} {2:.1f},{3:.1f} {2:.1f},{4:.1f}\" "
               "fill=\"{5}\"/>\n",
               tip, y, head, y - 5, y + 5, colour) +
           svg_line(tail, y, head, y, fmt::format(R"(stroke="{}" stroke-width="2")", colour));
  }
  const auto inside = [&](double value) { return x_of(std::clamp(value, axis.low, axis.high)); };
  std::string out = bar(inside(row.low), inside(row.high), y, 8,
                        fmt::format("rx=\"4\" fill=\"{}\" fill-opacity=\"0.28\"", colour));
  for (const double value : row.values)
    if (value >= axis.low && value <= axis.high)
      out += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\" fill-opacity=\"0.75\"/>\n",
          x_of(value), y, colour);
  return out + bar(x_of(row.mean) - 1.25, x_of(row.mean) + 1.25, y, 18,
                   fmt::format("fill=\"{}\"", colour));
}

}  // namespace

std::string dot_plot(const std::vector<DotRow>& rows, const DotPlotOptions& options) {
  check_rows(rows);
  const ChartAxis axis = axis_of(rows, options);
  const double bottom = kDotTop + kDotRow * static_cast<double>(rows.size());
  const double width = kDotLeft + kDotPlotWidth + kDotRight, height = bottom + kDotBottom;
  std::string body = fmt::format("<text x=\"16\" y=\"28\" font-size=\"16\" fill=\"{}\">{}</text>\n",
                                 hex(kInk), xml_escaped(printable(options.title)));
  for (const double tick : axis.ticks) {
    const double x = kDotLeft + axis.place(tick);
    body += svg_line(x, kDotTop - 4, x, bottom + 4, fmt::format("stroke=\"{}\"", hex(kGrid)));
    body += svg_text(x, bottom + 20, TextAnchor::kMiddle, axis.tick_label(tick), kInk);
  }
  body += svg_text(kDotLeft + kDotPlotWidth / 2, bottom + 40, TextAnchor::kMiddle, options.x_label,
                   kMuted);
  body += svg_text(width - 14, kDotTop - 10, TextAnchor::kEnd, options.mean_label, kMuted);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const DotRow& row = rows[i];
    const double y = kDotTop + kDotRow * (static_cast<double>(i) + 0.5);
    body += svg_text(kDotLeft - 14, y + 4, TextAnchor::kEnd, row.name, kInk, row.strong);
    body += row_elements(row, axis, y);
    body += svg_text(width - 14, y + 4, TextAnchor::kEnd,
                     fmt::format("{:.{}f}", row.mean, options.decimals), kInk, row.strong);
  }
  return svg_chart(width, height, options.title, body);
}

void write_dot_plot(const std::filesystem::path& path, const std::vector<DotRow>& rows,
                    const DotPlotOptions& options) {
  write_file(path, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + dot_plot(rows, options));
}

}  // namespace hydramix
