// SPDX-License-Identifier: Apache-2.0
// The colour map is tested after rounding to eight bits, as it is displayed. Half a step of sRGB is
// at most 0.004 in Oklab anywhere on the map; tolerances below are that, or twice it for
// differences.
#include "view/colour_map.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hydramix {
namespace {

constexpr double kRounding = 0.004;

TEST(ColourMap, CentreIsANeutralNearWhite) {
  const Rgb centre = diverging_colour(0);
  EXPECT_EQ(centre.r, centre.g);
  EXPECT_EQ(centre.g, centre.b);
  EXPECT_GE(centre.r, 240);
  EXPECT_LT(centre.r, 255) << "zero must still stand out from the white page";
  EXPECT_EQ(diverging_colour(-0.0), centre);
}

TEST(ColourMap, NegativeIsBlueAndPositiveIsRed) {
  for (const double t : {0.1, 0.5, 1.0}) {
    const Rgb red = diverging_colour(t), blue = diverging_colour(-t);
    EXPECT_GT(red.r, red.g) << t;
    EXPECT_GT(red.r, red.b) << t;
    EXPECT_GT(blue.b, blue.g) << t;
    EXPECT_GT(blue.b, blue.r) << t;
  }
}

TEST(ColourMap, LightnessFallsMonotonicallyFromTheCentre) {
  for (const double sign : {-1.0, 1.0}) {
    double previous = oklab_from_rgb(diverging_colour(0)).L;
    for (int step = 1; step <= 50; ++step) {
      const double lightness = oklab_from_rgb(diverging_colour(sign * step / 50.0)).L;
      EXPECT_LT(lightness, previous) << sign * step / 50.0;
      previous = lightness;
    }
    EXPECT_LT(previous, 0.5);
  }
}

TEST(ColourMap, BothSignsAreEquallyLightAndEquallyColourful) {
  for (int step = 0; step <= 100; ++step) {
    const double t = step / 100.0;
    const Oklab red = oklab_from_rgb(diverging_colour(t)),
                blue = oklab_from_rgb(diverging_colour(-t));
    EXPECT_NEAR(red.L, blue.L, 2 * kRounding) << t;
    EXPECT_NEAR(std::hypot(red.a, red.b), std::hypot(blue.a, blue.b), 2 * kRounding) << t;
  }
}

TEST(ColourMap, EqualStepsAreEquallyFarApart) {
  const double whole = std::hypot(0.52, 0.16);  // length of either segment in Oklab
  for (const double sign : {-1.0, 1.0})
    for (int step = 0; step < 10; ++step) {
      const Oklab from = oklab_from_rgb(diverging_colour(sign * step / 10.0));
      const Oklab to = oklab_from_rgb(diverging_colour(sign * (step + 1) / 10.0));
      EXPECT_NEAR(std::hypot(to.L - from.L, to.a - from.a, to.b - from.b), whole / 10,
                  2 * kRounding)
          << sign * step / 10.0;
    }
}

TEST(ColourMap, NothingIsClippedByTheGamut) {
  for (int step = -100; step <= 100; ++step) {
    const double t = step / 100.0;
    const Oklab wanted = diverging_oklab(t), shown = oklab_from_rgb(diverging_colour(t));
    EXPECT_NEAR(shown.L, wanted.L, kRounding) << t;
    EXPECT_NEAR(shown.a, wanted.a, kRounding) << t;
    EXPECT_NEAR(shown.b, wanted.b, kRounding) << t;
  }
}

TEST(ColourMap, BeyondTheScaleTheEndsHold) {
  EXPECT_EQ(diverging_colour(7.5), diverging_colour(1));
  EXPECT_EQ(diverging_colour(-7.5), diverging_colour(-1));
}

// Infinities and NaN are not an error, since a picture of a broken matrix is useful. They have a
// grey that no number has.
TEST(ColourMap, NotFiniteIsAGreyThatNoNumberHas) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double t : {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(diverging_colour(t), kNotFiniteColour);
  for (int step = -1000; step <= 1000; ++step) {
    const Rgb colour = diverging_colour(step / 1000.0);
    const int distance = std::abs(colour.r - kNotFiniteColour.r) +
                         std::abs(colour.g - kNotFiniteColour.g) +
                         std::abs(colour.b - kNotFiniteColour.b);
    EXPECT_GT(distance, 60) << step / 1000.0;
  }
}

TEST(ColourMap, OklabReturnsEveryColourItWasGiven) {
  for (int r = 0; r < 256; r += 15)
    for (int g = 0; g < 256; g += 15)
      for (int b = 0; b < 256; b += 15) {
        const Rgb colour{static_cast<uint8_t>(r), static_cast<uint8_t>(g), static_cast<uint8_t>(b)};
        ASSERT_EQ(rgb_from_oklab(oklab_from_rgb(colour)), colour) << r << " " << g << " " << b;
      }
  EXPECT_NEAR(oklab_from_rgb({255, 255, 255}).L, 1.0, 1e-6);
  // sRGB red in Oklab, as tabulated with its definition.
  const Oklab red = oklab_from_rgb({255, 0, 0});
  EXPECT_NEAR(red.L, 0.628, 1e-3);
  EXPECT_NEAR(red.a, 0.225, 1e-3);
  EXPECT_NEAR(red.b, 0.126, 1e-3);
}

}  // namespace
}  // namespace hydramix
