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
#include "view/page_parts.h"
#include "view/text.h"
#include "view/xml_text.h"

namespace hydramix {
namespace {

using page_parts::kFrame;
using page_parts::kInk;
using page_parts::kMuted;

constexpr double kLeft = 64, kTop = 76, kBottom = 56, kGap = 72;
constexpr double kFont = 13, kTitleFont = 18;
constexpr double kRow = 20, kSwatch = 34, kNoteColumn = 84;
constexpr std::size_t kMaxDots = 40;  // a line of more points is drawn without dots
constexpr Rgb kGrid{236, 238, 241};

struct Axis {
  bool logarithmic;
  double low, high, pixels;
  std::vector<double> ticks, minor_ticks;

  double place(double value) const {  // 0 to pixels
    const double share =
        logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return pixels * share;
  }
};

struct ChartDrawing {
  std::vector<ChartPanel> panels;
  Axis x, y;
  std::vector<ChartLine> legend;    // every line once, sorted by group
  std::vector<std::string> groups;  // in the order of the legend

  double bottom() const { return kTop + y.pixels; }
  double place_y(double value) const { return bottom() - y.place(value); }
  std::size_t group(const ChartLine& line) const {
    const auto found = std::find(groups.begin(), groups.end(), line.group);
    return static_cast<std::size_t>(found - groups.begin());
  }
  // The line's number within its group, for the dashes.
  std::size_t member(const ChartLine& line) const {
    std::size_t count = 0;
    for (const ChartLine& other : legend) {
      if (other.name == line.name) break;
      count += other.group == line.group ? 1 : 0;
    }
    return count;
  }
};

// About five round numbers inside [low, high].
std::vector<double> round_ticks(double low, double high) {
  const double rough = (high - low) / 5;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= rough) step = factor * power;
  std::vector<double> found;
  for (double k = std::ceil(low / step); k * step <= high + 1e-9 * step; ++k)
    found.push_back(k * step);
  return found;
}

Axis linear_axis(double low, double high, double pixels) {
  if (high == low) high = low + 1;
  return {false, low, high, pixels, round_ticks(low, high), {}};
}

// Whole decades, at least one.
Axis decades(double lowest, double highest, double pixels) {
  const double low = std::floor(std::log10(lowest));
  const double high = std::max(low + 1, std::ceil(std::log10(highest)));
  Axis axis{true, std::pow(10, low), std::pow(10, high), pixels, {}, {}};
  for (double decade = axis.low; decade <= axis.high * 1.001; decade *= 10) {
    axis.ticks.push_back(decade);
    for (int k = 2; k < 10 && decade * k < axis.high; ++k) axis.minor_ticks.push_back(decade * k);
  }
  return axis;
}

// A tick at every x of a point; with many of them at every second, third, ...
Axis logarithmic_x(const std::set<double>& xs, double pixels) {
  Axis axis{true, *xs.begin() / 1.2, *xs.rbegin() * 1.2, pixels, {}, {}};
  const std::size_t step = (xs.size() + 8) / 9;
  std::size_t i = 0;
  for (const double x : xs)
    if (i++ % step == 0) axis.ticks.push_back(x);
  return axis;
}

ChartDrawing arrange(const std::vector<ChartPanel>& panels, const ChartOptions& options) {
  ChartDrawing d{panels, {}, {}, {}, {}};
  std::set<double> xs, ys;
  for (ChartPanel& panel : d.panels)
    for (ChartLine& line : panel.lines) {
      if (line.group.empty()) line.group = line.name;
      const auto same = [&](const ChartLine& other) { return other.name == line.name; };
      if (std::none_of(d.legend.begin(), d.legend.end(), same)) d.legend.push_back(line);
      for (const auto& [x, y] : line.points) {
        HYDRAMIX_CHECK(std::isfinite(x) && std::isfinite(y), "chart: '", line.name,
                       "' has the point (", x, ", ", y, "), which is not finite.");
        HYDRAMIX_CHECK(!options.logarithmic || (x > 0 && y > 0), "chart: '", line.name,
                       "' has the point (", x, ", ", y,
                       "); logarithmic axes need positive numbers.");
        xs.insert(x);
        ys.insert(y);
      }
    }
  HYDRAMIX_CHECK(!xs.empty(), "chart: there is no point to draw. Measure something first.");
  if (options.logarithmic) {
    std::stable_sort(d.legend.begin(), d.legend.end(),
                     [](const ChartLine& a, const ChartLine& b) { return a.group < b.group; });
    d.x = logarithmic_x(xs, 430);
    d.y = decades(*ys.begin(), *ys.rbegin(), 430);
  } else {
    d.x = linear_axis(*xs.begin(), *xs.rbegin(), 560);
    d.y = linear_axis(options.from_zero ? std::min(0.0, *ys.begin()) : *ys.begin(), *ys.rbegin(),
                      260);
  }
  for (const ChartLine& line : d.legend)
    if (d.group(line) == d.groups.size()) d.groups.push_back(line.group);
  return d;
}

// Up to six groups: colours that are distinct without red and green too (Okabe and Ito). More:
// hues around the circle, every second one darker, so that neighbours differ twice.
Rgb group_colour(std::size_t group, std::size_t count) {
  constexpr std::array<Rgb, 6> kFew{
      {{0, 114, 178}, {213, 94, 0}, {204, 121, 167}, {0, 158, 115}, {230, 159, 0}, {86, 180, 233}}};
  if (count <= kFew.size()) return kFew[group];
  const double hue =
      2 * std::numbers::pi * static_cast<double>(group) / static_cast<double>(count) + 0.5;
  return rgb_from_oklab({group % 2 == 0 ? 0.62 : 0.46, 0.13 * std::cos(hue), 0.13 * std::sin(hue)});
}

std::string stroke(const ChartDrawing& d, const ChartLine& line) {
  constexpr std::array kDashes{"none", "7 3", "2 3", "9 3 2 3"};
  return fmt::format(R"(stroke="{}" stroke-width="1.8" stroke-dasharray="{}")",
                     hex(group_colour(d.group(line), d.groups.size())),
                     kDashes[d.member(line) % kDashes.size()]);
}

std::string plain_stroke(Rgb colour) {
  return fmt::format(R"(stroke="{}" stroke-width="1")", hex(colour));
}

std::string text(double x, double y, const char* anchor, const std::string& words,
                 const std::string& style) {
  if (words.empty()) return "";
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x, y,
                     anchor, style, xml_escaped(printable(words)));
}

std::string ink() { return fmt::format(R"(fill="{}")", hex(kInk)); }
std::string muted() { return fmt::format(R"(fill="{}")", hex(kMuted)); }

std::string segment(double x1, double y1, double x2, double y2, const std::string& style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, style);
}

// 65536 -> 64k on a logarithmic axis, where lengths are powers of two.
std::string tick_text(const Axis& axis, double value) {
  const auto whole = static_cast<int64_t>(std::llround(value));
  if (axis.logarithmic && whole >= 1024 && whole % 1024 == 0)
    return fmt::format("{}k", whole / 1024);
  return fmt::format("{:.6g}", value);
}

// y = c x^power through the middle of the panel, clipped to it.
std::string guide(const ChartDrawing& d, double left, double power) {
  const double x_mid = std::sqrt(d.x.low * d.x.high), y_mid = std::sqrt(d.y.low * d.y.high);
  const auto y_of = [&](double x) { return y_mid * std::pow(x / x_mid, power); };
  const auto x_of = [&](double y) { return x_mid * std::pow(y / y_mid, 1 / power); };
  const double from = std::max(d.x.low, x_of(d.y.low)), to = std::min(d.x.high, x_of(d.y.high));
  const double x2 = left + d.x.place(to), y2 = d.place_y(y_of(to));
  return segment(
             left + d.x.place(from), d.place_y(y_of(from)), x2, y2,
             fmt::format(R"(stroke="{}" stroke-width="1" stroke-dasharray="1 4")", hex(kMuted))) +
         text(x2 - 4, y2 + 16, "end", fmt::format("L^{:g}", power), muted());
}

std::string axes(const ChartDrawing& d, const ChartOptions& options, double left) {
  const double right = left + d.x.pixels, bottom = d.bottom();
  std::string out;
  for (const double tick : d.y.minor_ticks)
    out += segment(left, d.place_y(tick), right, d.place_y(tick), plain_stroke(kGrid));
  for (const double tick : d.y.ticks) {
    out += segment(left, d.place_y(tick), right, d.place_y(tick), plain_stroke(kFrame));
    out += text(left - 8, d.place_y(tick) + 4, "end", tick_text(d.y, tick), ink());
  }
  for (const double tick : d.x.ticks) {
    const double x = left + d.x.place(tick);
    out += segment(x, kTop, x, bottom, plain_stroke(kGrid));
    out += segment(x, bottom, x, bottom + 5, plain_stroke(kMuted));
    out += text(x, bottom + 20, "middle", tick_text(d.x, tick), ink());
  }
  out += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" {}/>\n",
      left, kTop, d.x.pixels, d.y.pixels, plain_stroke(kMuted));
  out += text(left + d.x.pixels / 2, bottom + 42, "middle", options.x_label, muted());
  return out + text(left, kTop - 10, "start", options.y_label, muted());
}

std::string line_elements(const ChartDrawing& d, const ChartLine& line, double left) {
  std::string points, dots;
  for (const auto& [px, py] : line.points) {
    const double x = left + d.x.place(px), y = d.place_y(py);
    points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", x, y);
    if (line.points.size() <= kMaxDots)
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.4\" fill=\"{}\"/>\n", x, y,
                          hex(group_colour(d.group(line), d.groups.size())));
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke-linejoin=\"round\" {}/>\n",
                     points, stroke(d, line)) +
         dots;
}

struct ChartLegend {
  std::string elements;
  double width, height;
};

ChartLegend legend(const ChartDrawing& d, double left) {
  std::size_t longest = 0;
  bool noted = false;
  for (const ChartLine& line : d.legend) longest = std::max(longest, line.name.size());
  for (const ChartPanel& panel : d.panels) noted = noted || !panel.note_label.empty();
  const double names = left + kSwatch + 10;
  const double notes = names + 0.6 * kFont * static_cast<double>(longest);
  const double columns = noted ? static_cast<double>(d.panels.size()) : 0;
  ChartLegend out{"", notes + kNoteColumn * columns - left,
                  kRow * static_cast<double>(d.legend.size() + 1)};
  double y = kTop + 8;
  for (std::size_t p = 0; p < d.panels.size(); ++p)
    out.elements += text(notes + kNoteColumn * static_cast<double>(p + 1), y - 18, "end",
                         d.panels[p].note_label, muted());
  for (const ChartLine& line : d.legend) {
    out.elements += segment(left, y, left + kSwatch, y, stroke(d, line));
    out.elements += text(names, y + 4, "start", line.name, ink());
    for (std::size_t p = 0; p < d.panels.size(); ++p)
      for (const ChartLine& shown : d.panels[p].lines)
        if (shown.name == line.name)
          out.elements += text(notes + kNoteColumn * static_cast<double>(p + 1), y + 4, "end",
                               shown.note, muted());
    y += kRow;
  }
  return out;
}

}  // namespace

std::string chart(const std::vector<ChartPanel>& panels, const ChartOptions& options) {
  const ChartDrawing d = arrange(panels, options);
  std::string body = text(kLeft, 30, "start", options.title,
                          fmt::format(R"(font-size="{:g}" fill="{}")", kTitleFont, hex(kInk)));
  double left = kLeft;
  for (const ChartPanel& panel : d.panels) {
    body += axes(d, options, left);
    if (options.logarithmic)
      for (const double power : {1.0, 2.0}) body += guide(d, left, power);
    for (const ChartLine& line : panel.lines) body += line_elements(d, line, left);
    body += text(left + d.x.pixels / 2, kTop - 10, "middle", panel.title,
                 ink() + " font-weight=\"bold\"");
    left += d.x.pixels + kGap;
  }
  const double key_left = left - kGap + 30;
  const ChartLegend key = legend(d, key_left);
  const double width = key_left + key.width + 24;
  const double height = kTop + std::max(d.y.pixels + kBottom, key.height);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
             "viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" font-size=\"{2:g}\" "
             "font-family=\"system-ui, sans-serif\">\n<title>{3}</title>\n"
             "<rect x=\"0\" y=\"0\" width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#ffffff\"/>\n",
             width, height, kFont, xml_escaped(printable(options.title))) +
         body + key.elements + "</svg>\n";
}

void write_chart(const std::filesystem::path& path, const std::vector<ChartPanel>& panels,
                 const ChartOptions& options) {
  write_file(path, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + chart(panels, options));
}

}  // namespace hydramix
