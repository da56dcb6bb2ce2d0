// SPDX-License-Identifier: Apache-2.0
// Rows of dots: every value where the axis says, and what is beyond the axis as an arrow.
#include "view/dot_plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/read_file.h"
#include "hydramix/error.h"
#include "support/expect.h"
#include "view/xml_reader.h"

namespace hydramix {
namespace {

using namespace test;

std::vector<XmlElement> dots_of(const std::vector<DotRow>& rows, const DotPlotOptions& options) {
  TemporaryFolder folder;
  write_dot_plot(folder / "d.svg", rows, options);
  return XmlReader::read(read_file(folder / "d.svg"));
}

double at(const XmlElement& element, const std::string& attribute) {
  return std::stod(element.attributes.at(attribute));
}

TEST(DotPlot, PlacesValuesAtTheirTicks) {
  const auto elements = dots_of({{"a & b", 2, 1, 3, {1, 2, 3}, true}, {"c", 2.5, 2, 3, {}}},
                                {.title = "T", .low = 1, .high = 3});
  const auto dots = named(elements, "circle");
  ASSERT_EQ(dots.size(), 3u);
  std::map<std::string, XmlElement> texts;
  for (const auto& text : named(elements, "text")) texts[text.text] = text;
  EXPECT_NEAR(at(texts.at("1"), "x"), at(dots[0], "cx"), 0.06);
  EXPECT_NEAR(at(texts.at("2"), "x"), at(dots[1], "cx"), 0.06);
  EXPECT_NEAR(at(texts.at("a & b"), "y") - 4, at(dots[0], "cy"), 0.06);
  // The bar of the second row reaches from 2 to 3.
  const auto bars = named(elements, "rect");  // background, then bar and tick of each row
  ASSERT_EQ(bars.size(), 5u);
  EXPECT_NEAR(at(bars[3], "x"), at(dots[1], "cx"), 0.06);
  EXPECT_NEAR(at(bars[3], "x") + at(bars[3], "width"), at(dots[2], "cx"), 0.11);
  EXPECT_TRUE(named(elements, "polygon").empty());
}

TEST(DotPlot, ARowBeyondTheAxisIsAnArrowWithItsMean) {
  const auto elements =
      dots_of({{"a", 2, 1, 3}, {"far", 9, 8.5, 9.5, {9}}}, {.title = "T", .low = 1, .high = 3});
  EXPECT_EQ(named(elements, "polygon").size(), 1u);
  EXPECT_TRUE(named(elements, "circle").empty());
  int means = 0;
  for (const auto& text : named(elements, "text")) means += text.text == "9.000";
  EXPECT_EQ(means, 1);
}

TEST(DotPlot, RefusesWhatItCannotDraw) {
  EXPECT_THROW_WITH(dot_plot({}, {}), Error, "no row");
  EXPECT_THROW_WITH(dot_plot({{"a", 4, 1, 3}}, {}), Error,
                    "mean of 'a', 4, is not between 1 and 3");
  EXPECT_THROW_WITH(dot_plot({{"a", 1, 1, HUGE_VAL}}, {}), Error, "'a' has a number");
}

}  // namespace
}  // namespace hydramix
