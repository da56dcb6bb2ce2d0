// SPDX-License-Identifier: Apache-2.0
#include "view/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <set>

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

constexpr double kLeft = 56, kRight = 34, kPlotWidth = 440;  // the page is narrow on purpose
constexpr double kTitleHeight = 34, kPanelTop = 30, kPanelBottom = 48;
constexpr double kLinearHeight = 240, kLogHeight = 280;
constexpr double kFont = 13, kTitleFont = 16;
constexpr double kRow = 22, kSwatch = 26, kSwatchGap = 8, kEntryGap = 22;
constexpr double kLetter = 0.58 * kFont;  // width of a letter, roughly
constexpr std::size_t kMaxDots = 40;      // a line of more points is drawn without dots

struct ChartDrawing {
  std::vector<ChartPanel> panels;
  ChartAxis x, y;
  std::vector<ChartLine> legend;      // every line once
  std::vector<std::string> coloured;  // the names of lines that are not in the background

  std::size_t number(const ChartLine& line) const {
    const auto found = std::find(coloured.begin(), coloured.end(), line.name);
    return static_cast<std::size_t>(found - coloured.begin());
  }
};

void check_line(const ChartLine& line, const ChartOptions& options) {
  HYDRAMIX_CHECK(line.range.empty() || line.range.size() == line.points.size(), "chart: '",
                 line.name, "' has ", line.points.size(), " points and ", line.range.size(),
                 " ranges; expected one for each point, or none.");
  const auto check_point = [&](double x, double y) {
    HYDRAMIX_CHECK(std::isfinite(x) && std::isfinite(y), "chart: '", line.name, "' has the point (",
                   x, ", ", y, "), which is not finite.");
    HYDRAMIX_CHECK((!options.log_x || x > 0) && (!options.log_y || y > 0), "chart: '", line.name,
                   "' has the point (", x, ", ", y, "); logarithmic axes need positive numbers.");
  };
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    check_point(line.points[i].first, line.points[i].second);
    if (line.range.empty()) continue;
    check_point(line.points[i].first, line.range[i].first);
    check_point(line.points[i].first, line.range[i].second);
  }
}

ChartDrawing arrange(const std::vector<ChartPanel>& panels, const ChartOptions& options) {
  ChartDrawing d{panels, {}, {}, {}, {}};
  std::set<double> xs, ys;
  for (ChartPanel& panel : d.panels)
    for (ChartLine& line : panel.lines) {
      check_line(line, options);
      const auto same = [&](const ChartLine& other) { return other.name == line.name; };
      if (std::none_of(d.legend.begin(), d.legend.end(), same)) d.legend.push_back(line);
      for (const auto& [x, y] : line.points) {
        xs.insert(x);
        ys.insert(y);
      }
      for (const auto& [low, high] : line.range) ys.insert({low, high});
    }
  HYDRAMIX_CHECK(!xs.empty(), "chart: there is no point to draw. Measure something first.");
  d.x = !options.log_x          ? linear_axis(*xs.begin(), *xs.rbegin(), kPlotWidth)
        : options.round_x_ticks ? logarithmic_axis(*xs.begin(), *xs.rbegin(), kPlotWidth)
                                : logarithmic_axis_at(xs, kPlotWidth);
  const double lowest = *ys.begin(), highest = *ys.rbegin();
  d.y = options.log_y ? logarithmic_axis(lowest, highest, kLogHeight)
                      : linear_axis(options.from_zero ? std::min(0.0, lowest) : lowest, highest,
                                    kLinearHeight);
  d.coloured = options.colours;
  for (const ChartLine& line : d.legend)
    if (!line.background && d.number(line) == d.coloured.size()) d.coloured.push_back(line.name);
  return d;
}

// Up to six lines: colours that are distinct without red and green too (after Okabe and Ito), all
// at least 3 : 1 against white. More: hues around the circle, every second one darker, so that
// neighbours differ twice.
Rgb line_colour(std::size_t number, std::size_t count) {
  constexpr std::array<Rgb, 6> kFew{
      {{0, 114, 178}, {213, 94, 0}, {0, 140, 102}, {176, 79, 138}, {168, 110, 0}, {47, 143, 196}}};
  if (count <= kFew.size()) return kFew[number];
  const double hue =
      2 * std::numbers::pi * static_cast<double>(number) / static_cast<double>(count) + 0.5;
  return rgb_from_oklab(
      {number % 2 == 0 ? 0.62 : 0.46, 0.13 * std::cos(hue), 0.13 * std::sin(hue)});
}

std::string colour_of(const ChartDrawing& d, const ChartLine& line) {
  return hex(line.background ? kFaint : line_colour(d.number(line), d.coloured.size()));
}

std::string line_stroke(const ChartDrawing& d, const ChartLine& line) {
  return fmt::format(R"(stroke="{}" stroke-width="{}"{})", colour_of(d, line),
                     line.background ? "1"
                     : line.strong   ? "3.2"
                                     : "1.8",
                     line.dashed ? R"( stroke-dasharray="5 4")" : "");
}

std::string thin_stroke(Rgb colour) {
  return fmt::format(R"(stroke="{}" stroke-width="1")", hex(colour));
}

// Draws panels: `top` is the y of the frame's upper edge.
class PanelPainter {
 public:
  PanelPainter(const ChartDrawing& drawing, const ChartOptions& options, double top)
      : d_(drawing), options_(options), top_(top), bottom_(top + drawing.y.pixels) {}

  std::string paint(const ChartPanel& panel) const {
    std::string out = axes();
    if (options_.guides) out += guide(1, 0.35) + guide(2, 0);
    out += svg_text(kLeft + kPlotWidth / 2, top_ - 9, TextAnchor::kMiddle, panel.title, kInk,
                    /*bold=*/true);
    out += svg_text(kLeft, top_ - 9, TextAnchor::kStart, options_.y_label, kMuted);
    // The most important lines come last, on top.
    for (const int layer : {0, 1, 2})
      for (const ChartLine& line : panel.lines)
        if ((line.background ? 0 : line.strong ? 2 : 1) == layer) out += line_elements(line);
    return out;
  }

 private:
  double x_of(double value) const { return kLeft + d_.x.place(value); }
  double y_of(double value) const { return bottom_ - d_.y.place(value); }

  std::string axes() const {
    const double right = kLeft + kPlotWidth;
    std::string out;
    for (const double tick : d_.y.minor_ticks)
      out += svg_line(kLeft, y_of(tick), right, y_of(tick), thin_stroke(kGrid));
    for (const double tick : d_.y.ticks) {
      out += svg_line(kLeft, y_of(tick), right, y_of(tick), thin_stroke(kFrame));
      out += svg_text(kLeft - 8, y_of(tick) + 4, TextAnchor::kEnd, d_.y.tick_label(tick), kInk);
    }
    for (const double tick : d_.x.ticks) {
      const double x = x_of(tick);
      out += svg_line(x, top_, x, bottom_, thin_stroke(kGrid));
      out += svg_line(x, bottom_, x, bottom_ + 5, thin_stroke(kMuted));
      out += svg_text(x, bottom_ + 20, TextAnchor::kMiddle, d_.x.tick_label(tick), kInk);
    }
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" {}/>\n",
        kLeft, top_, kPlotWidth, d_.y.pixels, thin_stroke(kMuted));
    return out + svg_text(kLeft + kPlotWidth / 2, bottom_ + 39, TextAnchor::kMiddle,
                          options_.x_label, kMuted);
  }

  // y = c x^power, which meets the right edge `drop` of the height below the top. Its label stands
  // outside the frame, where there are no lines.
  std::string guide(double power, double drop) const {
    const double end = d_.y.high * std::pow(d_.y.high / d_.y.low, -drop);
    const auto x_at = [&](double y) { return d_.x.high * std::pow(y / end, 1 / power); };
    const double from = std::max(d_.x.low, x_at(d_.y.low));
    const double right = kLeft + kPlotWidth;
    return svg_line(
               x_of(from), y_of(end * std::pow(from / d_.x.high, power)), right, y_of(end),
               fmt::format(R"(stroke="{}" stroke-width="1" stroke-dasharray="1 4")", hex(kMuted))) +
           svg_text(right + 6, y_of(end) + 4, TextAnchor::kStart,
                    power == 1 ? "L" : fmt::format("L^{:g}", power), kMuted);
  }

  std::string line_elements(const ChartLine& line) const {
    std::string points, dots, upper, lower;
    const bool dotted = line.points.size() <= kMaxDots && !line.background && !line.dashed;
    const auto pair = [&](double x, double y) { return fmt::format("{:.1f},{:.1f}", x, y); };
    for (std::size_t i = 0; i < line.points.size(); ++i) {
      const double x = x_of(line.points[i].first), y = y_of(line.points[i].second);
      points += (points.empty() ? "" : " ") + pair(x, y);
      if (dotted)
        dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"/>\n", x, y,
                            line.strong ? "3.6" : "2.4", colour_of(d_, line));
      if (options_.hover) dots += hover_target(line, i, x, y);
      if (line.range.empty()) continue;
      upper += (upper.empty() ? "" : " ") + pair(x, y_of(line.range[i].second));
      lower = " " + pair(x, y_of(line.range[i].first)) + lower;
    }
    std::string out;
    if (!line.range.empty())
      out += fmt::format("<polygon points=\"{}{}\" fill=\"{}\" fill-opacity=\"0.22\"/>\n", upper,
                         lower, colour_of(d_, line));
    return out +
           fmt::format("<polyline points=\"{}\" fill=\"none\" stroke-linejoin=\"round\" {}/>\n",
                       points, line_stroke(d_, line)) +
           dots;
  }

  // An invisible disc around a point, large enough to be hit, with its values as a tooltip.
  std::string hover_target(const ChartLine& line, std::size_t i, double x, double y) const {
    std::string values =
        fmt::format("{}{}: {:.4g} at {:g}", line.name, line.dashed ? ", dashed" : "",
                    line.points[i].second, line.points[i].first);
    if (!line.range.empty())
      values += fmt::format(", from {:.4g} to {:.4g}", line.range[i].first, line.range[i].second);
    return fmt::format(
        "<circle class=\"hover\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"7\" fill=\"{}\" "
        "fill-opacity=\"0\"><title>{}</title></circle>\n",
        x, y, colour_of(d_, line), xml_escaped(printable(values)));
  }

  const ChartDrawing& d_;
  const ChartOptions& options_;
  double top_, bottom_;
};

struct LegendEntry {
  std::string label, stroke;
};

std::vector<LegendEntry> legend_entries(const ChartDrawing& d, const ChartOptions& options) {
  std::vector<LegendEntry> entries;
  const ChartLine* background = nullptr;
  for (const ChartLine& line : d.legend) {
    if (line.background) {
      background = &line;
      continue;
    }
    std::string label = line.name, notes;
    for (const ChartPanel& panel : d.panels)
      for (const ChartLine& shown : panel.lines)
        if (shown.name == line.name && !shown.note.empty())
          notes += (notes.empty() ? "" : ", ") + shown.note;
    if (!notes.empty()) label += " (" + notes + ")";
    entries.push_back({label, line_stroke(d, line)});
  }
  if (background != nullptr)
    entries.push_back({options.background_label, line_stroke(d, *background)});
  return entries;
}

struct ChartLegend {
  std::string elements;
  double height = 0;
};

// As many columns as the longest entry allows.
ChartLegend legend(const std::vector<LegendEntry>& entries, double top) {
  std::size_t longest = 0;
  for (const LegendEntry& entry : entries) longest = std::max(longest, entry.label.size());
  const double entry_width =
      kSwatch + kSwatchGap + kLetter * static_cast<double>(longest) + kEntryGap;
  const double room = kPlotWidth + kRight + kEntryGap;
  const auto columns = std::max<std::size_t>(1, static_cast<std::size_t>(room / entry_width));
  const std::size_t rows = (entries.size() + columns - 1) / columns;
  ChartLegend out{"", kRow * static_cast<double>(rows)};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::size_t row = i / columns, column = i % columns;
    const double x = kLeft + entry_width * static_cast<double>(column);
    const double y = top + kRow * static_cast<double>(row) + kRow / 2;
    out.elements += svg_line(x, y, x + kSwatch, y, entries[i].stroke);
    out.elements +=
        svg_text(x + kSwatch + kSwatchGap, y + 4, TextAnchor::kStart, entries[i].label, kInk);
  }
  return out;
}

}  // namespace

std::string chart(const std::vector<ChartPanel>& panels, const ChartOptions& options) {
  const ChartDrawing d = arrange(panels, options);
  std::string body;
  double y = 8;
  if (!options.title.empty()) {
    body += fmt::format("<text x=\"{:.0f}\" y=\"28\" font-size=\"{:g}\" fill=\"{}\">{}</text>\n",
                        kLeft, kTitleFont, hex(kInk), xml_escaped(printable(options.title)));
    y = kTitleHeight;
  }
  for (const ChartPanel& panel : d.panels) {
    body += PanelPainter(d, options, y + kPanelTop).paint(panel);
    y += kPanelTop + d.y.pixels + kPanelBottom;
  }
  const ChartLegend key = legend(legend_entries(d, options), y);
  return svg_chart(kLeft + kPlotWidth + kRight, y + key.height + 12, options.title,
                   body + key.elements);
}

void write_chart(const std::filesystem::path& path, const std::vector<ChartPanel>& panels,
                 const ChartOptions& options) {
  write_file(path, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + chart(panels, options));
}

}  // namespace hydramix
