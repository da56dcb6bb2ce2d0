// SPDX-License-Identifier: Apache-2.0
// Curves as SVG files: well-formed, escaped, and every point where the axes say.
#include "view/curve_plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "base/atomic_file.h"
#include "hydramix/error.h"
#include "support/expect.h"
#include "view/xml_reader.h"

namespace hydramix {
namespace {

using namespace test;

std::vector<XmlElement> drawn(const std::vector<CurvePanel>& panels,
                              const CurveLabels& labels = {"T", "x", "y"}) {
  TemporaryFolder folder;
  write_curves(folder / "c.svg", panels, labels);
  return XmlReader::read(read_file(folder / "c.svg"));
}

const XmlElement* text(const std::vector<XmlElement>& elements, const std::string& words) {
  for (const auto& element : elements)
    if (element.name == "text" && element.text == words) return &element;
  return nullptr;
}

double number(const XmlElement& element, const std::string& attribute) {
  return std::stod(element.attributes.at(attribute));
}

CurvePanel two_curves() {
  return {"forward",
          "slope",
          {{"linear", "fast", "1.00", {{1024, 0.5}, {2048, 1}, {4096, 2}}},
           {"square", "slow", "2.00", {{1024, 1}, {2048, 4}, {4096, 16}}}}};
}

TEST(Curves, PlacesPointsAtTheirTicks) {
  const auto elements = drawn({two_curves()});
  ASSERT_EQ(named(elements, "polyline").size(), 2u);
  const auto dots = named(elements, "circle");
  ASSERT_EQ(dots.size(), 6u);
  // (2048, 1) is the second dot: above the label 2k, beside the label 1.
  ASSERT_NE(text(elements, "2k"), nullptr);
  ASSERT_NE(text(elements, "1"), nullptr);
  EXPECT_NEAR(number(dots[1], "cx"), number(*text(elements, "2k"), "x"), 0.11);
  EXPECT_NEAR(number(dots[1], "cy"), number(*text(elements, "1"), "y") - 4, 0.11);
  // Equal factors are equal distances.
  EXPECT_NEAR(number(dots[0], "cy") - number(dots[1], "cy"),
              number(dots[1], "cy") - number(dots[2], "cy"), 0.21);
  EXPECT_NEAR(number(dots[3], "cy") - number(dots[4], "cy"),
              2 * (number(dots[0], "cy") - number(dots[1], "cy")), 0.31);
}

TEST(Curves, StayInsideThePage) {
  const auto elements = drawn({two_curves(), two_curves()});
  const double width = number(elements[0], "width"), height = number(elements[0], "height");
  for (const auto& element : elements) {
    if (element.name != "line") continue;
    for (const std::string x : {"x1", "x2"}) EXPECT_TRUE(number(element, x) >= 0);
    for (const std::string x : {"x1", "x2"}) EXPECT_TRUE(number(element, x) <= width);
    for (const std::string y : {"y1", "y2"}) EXPECT_TRUE(number(element, y) >= 0);
    for (const std::string y : {"y1", "y2"}) EXPECT_TRUE(number(element, y) <= height);
  }
  EXPECT_EQ(named(elements, "circle").size(), 12u);
}

TEST(Curves, GroupsShareAColourAndDifferInDashes) {
  CurvePanel panel = two_curves();
  panel.curves.push_back({"other", "fast", "", {{1024, 3}}});
  const auto lines = named(drawn({panel}), "polyline");
  EXPECT_EQ(lines[0].attributes.at("stroke"), lines[2].attributes.at("stroke"));
  EXPECT_NE(lines[0].attributes.at("stroke"), lines[1].attributes.at("stroke"));
  EXPECT_NE(lines[0].attributes.at("stroke-dasharray"), lines[2].attributes.at("stroke-dasharray"));
}

TEST(Curves, TheLegendNamesEveryCurveOnceWithItsNotes) {
  CurvePanel second = two_curves();
  second.curves[0].note = "1.25";
  const auto elements = drawn({two_curves(), second});
  int linear = 0;
  for (const auto& element : elements) linear += element.text == "linear";
  EXPECT_EQ(linear, 1);
  EXPECT_NE(text(elements, "1.00"), nullptr);
  EXPECT_NE(text(elements, "1.25"), nullptr);
}

TEST(Curves, EscapesWhateverTheNamesHold) {
  CurvePanel panel = two_curves();
  panel.curves[0].name = "a<b> & \"c\" \xc3\xa9\n";
  EXPECT_NE(text(drawn({panel}), "a<b> & \"c\" ? "), nullptr);
}

TEST(Curves, RefusesWhatLogarithmicAxesCannotShow) {
  TemporaryFolder folder;
  const auto write = [&](const std::vector<CurvePanel>& panels) {
    write_curves(folder / "c.svg", panels, {});
  };
  EXPECT_THROW_WITH(write({}), Error, "no point to draw");
  for (const double bad : {0.0, -1.0, HUGE_VAL, std::nan("")})
    EXPECT_THROW_WITH(write({{"p", "", {{"c", "g", "", {{1, bad}}}}}}), Error, "positive numbers");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Curves, DrawsASinglePoint) {
  EXPECT_EQ(named(drawn({{"p", "", {{"c", "g", "", {{512, 1}}}}}}), "circle").size(), 1u);
}

}  // namespace
}  // namespace hydramix
