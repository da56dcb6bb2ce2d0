// SPDX-License-Identifier: Apache-2.0
// Colours on light and dark backgrounds: enough contrast on both, and every colour has its partner.
#include "view/theme.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "view/chart.h"
#include "view/dot_plot.h"
#include "view/page_fixtures.h"
#include "view/svg.h"
#include "view/xml_text.h"

namespace hydramix {
namespace {

// WCAG 2: (L1 + 0.05) / (L2 + 0.05) of the relative luminances.
double contrast(Rgb a, Rgb b) {
  const auto luminance = [](Rgb colour) {
    const auto linear = [](uint8_t byte) {
      const double s = byte / 255.0;
      return s <= 0.04045 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * linear(colour.r) + 0.7152 * linear(colour.g) + 0.0722 * linear(colour.b);
  };
  const double x = luminance(a) + 0.05, y = luminance(b) + 0.05;
  return std::max(x, y) / std::min(x, y);
}

std::vector<std::string> pictures() {
  ChartPanel panel;
  for (int i = 0; i < 6; ++i)
    panel.lines.push_back({std::to_string(i), "", {{1, i + 1}, {2, i + 2}}});
  panel.lines.push_back({"z", "", {{1, 1}}});
  panel.lines.back().background = true;
  return {chart({panel}, {.title = "t", .log_x = true, .log_y = true, .guides = true}),
          dot_plot({{"a", 2, 1, 3, {1, 3}, true}, {"b", 9, 9, 9}}, {.title = "t", .high = 4}),
          svg_page({test::labelled_picture(3, 3)})};
}

TEST(Theme, TextHasContrastOnBothBackgrounds) {
  for (const Rgb colour : {kInk, kMuted}) {
    EXPECT_GE(contrast(colour, kPaper), 4.5);
    EXPECT_GE(contrast(dark_colour(colour), dark_colour(kPaper)), 4.5);
  }
}

TEST(Theme, EveryColourOfAPictureHasAPartnerInTheDark) {
  for (const std::string& svg : pictures()) {
    EXPECT_NE(svg.find("@media (prefers-color-scheme:dark)"), std::string::npos);
    const auto body = svg.substr(svg.find("</style>"));
    for (const std::string property : {"fill", "stroke"})
      for (auto at = body.find(property + "=\"#"); at != std::string::npos;
           at = body.find(property + "=\"#", at + 1)) {
        const auto digits = body.substr(at + property.size() + 2, 7);
        EXPECT_NE(svg.find("svg [" + property + "=\"" + digits + "\"]"), std::string::npos)
            << property << " " << digits;
      }
    EXPECT_EQ(body.find("rgb("), std::string::npos) << "a colour that no rule replaces";
  }
}

// Lines and dots, which are no text, need 3 : 1 (WCAG 2, 1.4.11).
TEST(Theme, LinesOfAChartStandOutOnBothBackgrounds) {
  const std::string svg = pictures()[0];
  std::set<std::string> seen;
  for (auto at = svg.find("r=\"2.4\" fill=\"#"); at != std::string::npos;
       at = svg.find("r=\"2.4\" fill=\"#", at + 1)) {
    const auto digits = svg.substr(at + 15, 6);
    seen.insert(digits);
    const auto value = std::stoul(digits, nullptr, 16);
    const Rgb colour{static_cast<uint8_t>(value >> 16), static_cast<uint8_t>(value >> 8),
                     static_cast<uint8_t>(value)};
    EXPECT_GE(contrast(colour, kPaper), 3) << digits;
    EXPECT_GE(contrast(dark_colour(colour), dark_colour(kPaper)), 4.5) << digits;
  }
  EXPECT_EQ(seen.size(), 6u);
}

}  // namespace
}  // namespace hydramix
