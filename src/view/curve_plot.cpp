// SPDX-License-Identifier: Apache-2.0
#include "view/curve_plot.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <set>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "hydramix/error.h"
#include "view/colour_map.h"
#include "view/page_parts.h"
#include "view/text.h"
#include "view/xml_text.h"

namespace hydramix {
namespace {

using page_parts::kFrame;
using page_parts::kInk;
using page_parts::kMuted;

constexpr double kSide = 430, kLeft = 70, kTop = 84, kBottom = 60, kGap = 64;
constexpr double kFont = 12, kAdvance = 0.6 * kFont;  // of a letter of a monospaced face
constexpr double kRow = 18, kSwatch = 34;
constexpr Rgb kGrid{236, 238, 241};

double advance(std::size_t characters) { return kAdvance * static_cast<double>(characters); }

// A logarithmic axis from low to high, over kSide pixels.
struct LogAxis {
  double low, high;
  double place(double value) const {  // 0 to kSide
    return kSide * std::log(value / low) / std::log(high / low);
  }
};

struct Drawing {
  std::vector<CurvePanel> panels;
  LogAxis x, y;
  std::vector<double> x_ticks;
  std::vector<Curve> legend;        // every curve once, sorted by group
  std::vector<std::string> groups;  // sorted

  std::size_t group(const Curve& curve) const {
    return static_cast<std::size_t>(std::find(groups.begin(), groups.end(), curve.group) -
                                    groups.begin());
  }
  // Which of its group, for the dashes.
  std::size_t member(const Curve& curve) const {
    std::size_t count = 0;
    for (const Curve& other : legend) {
      if (other.name == curve.name) break;
      count += other.group == curve.group ? 1 : 0;
    }
    return count;
  }
};

Drawing arrange(const std::vector<CurvePanel>& panels) {
  Drawing d{.panels = panels, .x = {}, .y = {}, .x_ticks = {}, .legend = {}, .groups = {}};
  std::set<double> xs, ys;
  std::set<std::string> groups;
  for (const CurvePanel& panel : panels)
    for (const Curve& curve : panel.curves) {
      groups.insert(curve.group);
      const auto same = [&](const Curve& other) { return other.name == curve.name; };
      if (std::none_of(d.legend.begin(), d.legend.end(), same)) d.legend.push_back(curve);
      for (const auto& [x, y] : curve.points) {
        HYDRAMIX_CHECK(x > 0 && y > 0 && std::isfinite(x) && std::isfinite(y),
                       "curves: ", curve.name, " has the point (", x, ", ", y,
                       "); logarithmic axes need positive numbers.");
        xs.insert(x);
        ys.insert(y);
      }
    }
  HYDRAMIX_CHECK(!xs.empty(), "curves: there is no point to draw. Measure something first.");
  d.groups.assign(groups.begin(), groups.end());
  std::stable_sort(d.legend.begin(), d.legend.end(),
                   [](const Curve& a, const Curve& b) { return a.group < b.group; });
  d.x = {*xs.begin() / 1.2, *xs.rbegin() * 1.2};
  // Whole decades, at least one.
  const double low = std::floor(std::log10(*ys.begin()));
  const double high = std::max(low + 1, std::ceil(std::log10(*ys.rbegin())));
  d.y = {std::pow(10, low), std::pow(10, high)};
  // Every x of a point has its tick, unless they are too many: then every second, third, ...
  const std::size_t step = (xs.size() + 8) / 9;
  std::size_t i = 0;
  for (const double x : xs)
    if (i++ % step == 0) d.x_ticks.push_back(x);
  return d;
}

// Hues around the circle, every second one darker, so that neighbours differ twice.
Rgb group_colour(std::size_t group, std::size_t count) {
  const double hue =
      2 * std::numbers::pi * static_cast<double>(group) / static_cast<double>(count) + 0.5;
  return rgb_from_oklab({group % 2 == 0 ? 0.62 : 0.46, 0.13 * std::cos(hue), 0.13 * std::sin(hue)});
}

std::string stroke(const Drawing& d, const Curve& curve) {
  constexpr const char* kDashes[] = {"none", "7 3", "2 3", "9 3 2 3"};
  return fmt::format(R"(stroke="{}" stroke-width="1.8" stroke-dasharray="{}")",
                     hex(group_colour(d.group(curve), d.groups.size())),
                     kDashes[d.member(curve) % std::size(kDashes)]);
}

enum class Anchor { kStart, kMiddle, kEnd };

std::string text(double x, double y, const std::string& words, Rgb colour,
                 Anchor anchor = Anchor::kStart, bool bold = false) {
  constexpr const char* kNames[] = {"start", "middle", "end"};
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\" text-anchor=\"{}\"{}>{}</text>\n",
                     x, y, hex(colour), kNames[static_cast<int>(anchor)],
                     bold ? " font-weight=\"bold\"" : "", xml_escaped(printable(words)));
}

std::string line(double x1, double y1, double x2, double y2, const std::string& style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, style);
}

std::string plain_stroke(Rgb colour) {
  return fmt::format(R"(stroke="{}" stroke-width="1")", hex(colour));
}

// 65536 -> 64k; lengths are powers of two.
std::string length_text(double x) {
  const auto whole = static_cast<int64_t>(std::llround(x));
  return whole >= 1024 && whole % 1024 == 0 ? fmt::format("{}k", whole / 1024)
                                            : fmt::format("{:g}", x);
}

// y = c x^power through the middle of the panel, as far as it lies inside.
std::string guide(const Drawing& d, double left, double power) {
  const double x_mid = std::sqrt(d.x.low * d.x.high), y_mid = std::sqrt(d.y.low * d.y.high);
  const auto y_of = [&](double x) { return y_mid * std::pow(x / x_mid, power); };
  const auto x_of = [&](double y) { return x_mid * std::pow(y / y_mid, 1 / power); };
  const double from = std::max(d.x.low, x_of(d.y.low)), to = std::min(d.x.high, x_of(d.y.high));
  const double x2 = left + d.x.place(to), y2 = kTop + kSide - d.y.place(y_of(to));
  return line(left + d.x.place(from), kTop + kSide - d.y.place(y_of(from)), x2, y2,
              fmt::format(R"(stroke="{}" stroke-width="1" stroke-dasharray="1 4")", hex(kMuted))) +
         text(x2 - 4, y2 + 14, fmt::format("L^{:g}", power), kMuted, Anchor::kEnd);
}

std::string axes(const Drawing& d, const CurveLabels& labels, double left) {
  std::string out;
  for (double decade = d.y.low; decade <= d.y.high * 1.001; decade *= 10) {
    const double y = kTop + kSide - d.y.place(decade);
    out += line(left, y, left + kSide, y, plain_stroke(kFrame));
    out += text(left - 8, y + 4, fmt::format("{:g}", decade), kInk, Anchor::kEnd);
    for (int minor = 2; minor < 10 && decade * minor < d.y.high; ++minor) {
      const double between = kTop + kSide - d.y.place(decade * minor);
      out += line(left, between, left + kSide, between, plain_stroke(kGrid));
    }
  }
  for (const double tick : d.x_ticks) {
    const double x = left + d.x.place(tick);
    out += line(x, kTop, x, kTop + kSide, plain_stroke(kGrid));
    out += line(x, kTop + kSide, x, kTop + kSide + 5, plain_stroke(kMuted));
    out += text(x, kTop + kSide + 20, length_text(tick), kInk, Anchor::kMiddle);
  }
  out += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" {}/>\n",
      left, kTop, kSide, kSide, plain_stroke(kMuted));
  out += text(left + kSide / 2, kTop + kSide + 42, labels.x_label, kMuted, Anchor::kMiddle);
  return out + text(left - 8, kTop - 12, labels.y_label, kMuted, Anchor::kEnd);
}

std::string curve_elements(const Drawing& d, const Curve& curve, double left) {
  std::string points, dots;
  for (const auto& [px, py] : curve.points) {
    const double x = left + d.x.place(px), y = kTop + kSide - d.y.place(py);
    points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", x, y);
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.4\" fill=\"{}\"/>\n", x, y,
                        hex(group_colour(d.group(curve), d.groups.size())));
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" {}/>\n", points, stroke(d, curve)) +
         dots;
}

struct Legend {
  std::string elements;
  double width, height;
};

Legend legend(const Drawing& d, double left) {
  std::size_t longest = 0;
  for (const Curve& curve : d.legend) longest = std::max(longest, curve.name.size());
  const double names = left + kSwatch + 10, notes = names + advance(longest);
  constexpr double kNoteColumn = 11 * kAdvance;
  Legend out{
      .elements = "",
      .width = kSwatch + 10 + advance(longest) + kNoteColumn * static_cast<double>(d.panels.size()),
      .height = kRow * static_cast<double>(d.legend.size() + 2)};
  double y = kTop + 4;
  for (std::size_t p = 0; p < d.panels.size(); ++p)
    out.elements += text(notes + kNoteColumn * static_cast<double>(p + 1), y - 16,
                         d.panels[p].note_label, kMuted, Anchor::kEnd);
  for (const Curve& curve : d.legend) {
    out.elements += line(left, y, left + kSwatch, y, stroke(d, curve));
    out.elements += text(names, y + 4, curve.name, kInk);
    for (std::size_t p = 0; p < d.panels.size(); ++p)
      for (const Curve& shown : d.panels[p].curves)
        if (shown.name == curve.name)
          out.elements += text(notes + kNoteColumn * static_cast<double>(p + 1), y + 4, shown.note,
                               kMuted, Anchor::kEnd);
    y += kRow;
  }
  return out;
}

}  // namespace

void write_curves(const std::filesystem::path& path, const std::vector<CurvePanel>& panels,
                  const CurveLabels& labels) {
  const Drawing d = arrange(panels);
  std::string body;
  double left = kLeft;
  for (const CurvePanel& panel : d.panels) {
    body += axes(d, labels, left);
    for (const double power : {1.0, 2.0}) body += guide(d, left, power);
    for (const Curve& curve : panel.curves) body += curve_elements(d, curve, left);
    body += text(left + kSide / 2, kTop - 12, panel.title, kInk, Anchor::kMiddle, /*bold=*/true);
    left += kSide + kGap;
  }
  const Legend key = legend(d, left - kGap + 30);
  const double width = left - kGap + 30 + key.width + 24;
  const double height = kTop + std::max(kSide + kBottom, key.height);
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-size=\"{2:g}\" font-family=\"ui-monospace, Menlo, "
      "Consolas, &apos;DejaVu Sans Mono&apos;, monospace\">\n"
      "<title>{3}</title>\n"
      "<rect x=\"0\" y=\"0\" width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#ffffff\"/>\n",
      width, height, kFont, xml_escaped(printable(labels.title)));
  out += fmt::format("<text x=\"{:.0f}\" y=\"34\" font-size=\"18\" fill=\"{}\">{}</text>\n", kLeft,
                     hex(kInk), xml_escaped(printable(labels.title)));
  write_file(path, out + body + key.elements + "</svg>\n");
}

}  // namespace hydramix
