// SPDX-License-Identifier: Apache-2.0
// Charts as SVG: well-formed, escaped, and every point where the axes say.
#include "view/chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "base/read_file.h"
#include "hydramix/error.h"
#include "support/expect.h"
#include "view/xml_reader.h"

namespace hydramix {
namespace {

using namespace test;

const ChartOptions kLogarithmic{
    .title = "T", .x_label = "x", .y_label = "y", .log_x = true, .log_y = true, .guides = true};

std::vector<XmlElement> drawn(const std::vector<ChartPanel>& panels,
                              const ChartOptions& options = kLogarithmic) {
  TemporaryFolder folder;
  write_chart(folder / "c.svg", panels, options);
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

ChartPanel two_lines() {
  return {"forward",
          {{"linear", "1.00", {{1024, 0.5}, {2048, 1}, {4096, 2}}},
           {"square", "2.00", {{1024, 1}, {2048, 4}, {4096, 16}}}}};
}

TEST(Chart, PlacesPointsAtTheirTicks) {
  const auto elements = drawn({two_lines()});
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

TEST(Chart, StayInsideThePage) {
  const auto elements = drawn({two_lines(), two_lines()});
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

TEST(Chart, TheLegendNamesEveryLineOnceWithItsNotes) {
  ChartPanel second = two_lines();
  second.lines[0].note = "1.25";
  const auto elements = drawn({two_lines(), second});
  int linear = 0;
  for (const auto& element : elements) linear += element.text == "linear (1.00, 1.25)";
  EXPECT_EQ(linear, 1);
  EXPECT_NE(text(elements, "square (2.00, 2.00)"), nullptr);
}

TEST(Chart, EscapesWhateverTheNamesHold) {
  ChartPanel panel = two_lines();
  panel.lines[0].name = "a<b> & \"c\" \xc3\xa9\n";
  panel.lines[0].note.clear();
  EXPECT_NE(text(drawn({panel}), "a<b> & \"c\" ? "), nullptr);
}

TEST(Chart, RefusesWhatItsAxesCannotShow) {
  TemporaryFolder folder;
  const auto write = [&](const std::vector<ChartPanel>& panels, const ChartOptions& options) {
    write_chart(folder / "c.svg", panels, options);
  };
  EXPECT_THROW_WITH(write({}, {}), Error, "no point to draw");
  for (const double bad : {0.0, -1.0})
    EXPECT_THROW_WITH(write({{"p", {{"c", "", {{1, bad}}}}}}, kLogarithmic), Error,
                      "positive numbers");
  for (const double bad : {HUGE_VAL, std::nan("")})
    for (const auto& options : {kLogarithmic, ChartOptions{}})
      EXPECT_THROW_WITH(write({{"p", {{"c", "", {{1, bad}}}}}}, options), Error,
                        "'c' has the point");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Chart, DrawsASinglePoint) {
  for (const auto& options : {kLogarithmic, ChartOptions{}})
    EXPECT_EQ(named(drawn({{"p", {{"c", "", {{512, 1}}}}}}, options), "circle").size(), 1u);
}

// The frame is the rectangle without a fill.
XmlElement frame_of(const std::vector<XmlElement>& elements) {
  for (const auto& element : named(elements, "rect"))
    if (element.attributes.at("fill") == "none") return element;
  return {};
}

TEST(Chart, LinearAxesReachFromTheFirstPointToTheLast) {
  const ChartPanel panel{"", {{"a", "", {{0, 1}, {50, 3}, {100, 2}}}, {"b", "", {}}}};
  for (const bool from_zero : {true, false}) {
    ChartOptions options;
    options.from_zero = from_zero;
    const auto elements = drawn({panel}, options);
    const auto frame = frame_of(elements);
    const double left = number(frame, "x"), width = number(frame, "width");
    const double top = number(frame, "y"), height = number(frame, "height");
    const auto dots = named(elements, "circle");
    ASSERT_EQ(dots.size(), 3u);
    EXPECT_NEAR(number(dots[0], "cx"), left, 0.11);
    EXPECT_NEAR(number(dots[1], "cx"), left + width / 2, 0.11);
    EXPECT_NEAR(number(dots[2], "cx"), left + width, 0.11);
    EXPECT_NEAR(number(dots[1], "cy"), top, 0.11);
    EXPECT_NEAR(number(dots[0], "cy"), top + (from_zero ? height * 2 / 3 : height), 0.11);
  }
}

TEST(Chart, EveryLineHasAColourOfItsOwn) {
  const auto lines =
      named(drawn({{"", {{"a", "", {{0, 1}}}, {"b", "", {{0, 2}}}}}}, {}), "polyline");
  EXPECT_NE(lines.at(0).attributes.at("stroke"), lines.at(1).attributes.at("stroke"));
}

TEST(Chart, ALongLineHasNoDots) {
  ChartLine line{"a", "", {}};
  for (int i = 0; i < 1000; ++i) line.points.emplace_back(i, i % 7);
  EXPECT_TRUE(named(drawn({{"", {line}}}, {}), "circle").empty());
}

TEST(Chart, TheBackgroundIsGreyUnderTheOthersAndHasOneEntry) {
  ChartPanel panel = two_lines();
  panel.lines[1].strong = true;
  for (const std::string name : {"x", "y", "z"}) {
    panel.lines.push_back({name, "", {{1024, 3}, {4096, 9}}});
    panel.lines.back().background = true;
  }
  ChartOptions options = kLogarithmic;
  options.background_label = "3 others";
  const auto elements = drawn({panel}, options);
  const auto lines = named(elements, "polyline");
  ASSERT_EQ(lines.size(), 5u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(lines[i].attributes.at("stroke"), "#b0b6c0");
  EXPECT_GT(number(lines[4], "stroke-width"), number(lines[3], "stroke-width")) << "on top";
  EXPECT_GT(number(lines[3], "stroke-width"), number(lines[0], "stroke-width"));
  EXPECT_NE(text(elements, "3 others"), nullptr);
  EXPECT_EQ(text(elements, "x"), text(elements, kLogarithmic.x_label)) << "no entry of its own";
  EXPECT_EQ(text(elements, "z"), nullptr);
}

TEST(Chart, ARangeReachesFromTheLowestToTheHighest) {
  ChartPanel panel{"", {{"a", "", {{0, 2}, {10, 3}}, {{1, 4}, {3, 5}}}}};
  const auto elements = drawn({panel}, {.from_zero = false});
  const auto area = named(elements, "polygon");
  ASSERT_EQ(area.size(), 1u);
  const auto frame = frame_of(elements);
  const double left = number(frame, "x"), right = left + number(frame, "width");
  const double top = number(frame, "y"), bottom = top + number(frame, "height");
  const double one = (bottom - top) / 4;
  std::istringstream points(area[0].attributes.at("points"));
  for (const auto& [wanted_x, wanted_y] : {std::pair<double, double>{left, bottom - 3 * one},
                                           {right, top},
                                           {right, bottom - 2 * one},
                                           {left, bottom}}) {
    double x = 0, y = 0;
    char comma = 0;
    points >> x >> comma >> y;
    EXPECT_NEAR(x, wanted_x, 0.06);
    EXPECT_NEAR(y, wanted_y, 0.06);
  }
  panel.lines[0].range.pop_back();
  EXPECT_THROW_WITH(drawn({panel}, {}), Error, "2 points and 1 ranges");
}

// A loss falls fast and then slowly. On a logarithmic axis its second half is not flat.
TEST(Chart, ALogarithmicAxisOverLinearStepsHasRoundTicks) {
  const ChartPanel panel{"", {{"a", "", {{0, 6}, {100, 0.9}, {200, 0.45}}}}};
  const auto elements = drawn({panel}, {.log_y = true});
  for (const std::string tick : {"0.5", "1", "2", "5", "100"})
    EXPECT_NE(text(elements, tick), nullptr) << tick;
  const auto dots = named(elements, "circle");
  EXPECT_GT(number(dots[2], "cy") - number(dots[1], "cy"), 60);
  EXPECT_THROW_WITH(drawn({{"", {{"a", "", {{0, 0}}}}}}, {.log_y = true}), Error,
                    "positive numbers");
}

// A page at most as wide as this has letters of 8 pixels on a telephone of 390.
TEST(Chart, FitsATelephone) {
  ChartPanel panel;
  for (int i = 0; i < 27; ++i)
    panel.lines.push_back({"mixer_with_a_long_name_" + std::to_string(i), "", {{1, i}}});
  const auto elements = drawn({panel}, {});
  EXPECT_LE(number(elements[0], "width"), 560);
  for (const auto& element : named(elements, "text")) {
    if (!element.text.starts_with("mixer_")) continue;
    EXPECT_LE(number(element, "x") + 7 * static_cast<double>(element.text.size()),
              number(elements[0], "width"))
        << element.text;
  }
}

}  // namespace
}  // namespace hydramix
