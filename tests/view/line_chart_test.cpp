// SPDX-License-Identifier: Apache-2.0
#include "view/line_chart.h"

#include <cmath>

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(LineChart, DrawsEveryLineInsideItsFrameAndNamesIt) {
  const auto svg = line_chart({{"a < b", {{0, 1}, {50, 3}, {100, 2}}}, {"c", {{10, 0.5}}}},
                              {"Loss & more", "step", "loss"});
  EXPECT_EQ(count(svg, "<polyline"), 2u);
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_NE(svg.find("Loss &amp; more"), std::string::npos);
  // x from 56 to 610, y from 274 (0) up to 34 (3).
  EXPECT_NE(svg.find("points=\"56.0,194.0 333.0,34.0 610.0,114.0\""), std::string::npos) << svg;
}

TEST(LineChart, ConstantAndSinglePointsAreDrawn) {
  EXPECT_NE(line_chart({{"a", {{5, 0}}}}, {}).find("56.0,274.0"), std::string::npos);
}

TEST(LineChart, TheAxisNeedNotBeginAtZero) {
  const auto svg = line_chart({{"a", {{0, 4}, {1, 3}}}}, {"", "", "", /*from_zero=*/false});
  EXPECT_NE(svg.find("points=\"56.0,34.0 610.0,274.0\""), std::string::npos) << svg;
}

TEST(LineChart, NothingAndWhatIsNotFiniteAreErrors) {
  EXPECT_THROW_WITH(line_chart({}, {}), Error, "nothing to draw");
  EXPECT_THROW_WITH(line_chart({{"a", {{1, NAN}}}}, {}), Error, "'a' has a point");
}

}  // namespace
}  // namespace hydramix
