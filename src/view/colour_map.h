// SPDX-License-Identifier: Apache-2.0
// The diverging colour map of all matrix pictures: blue for negative, near-white for zero, red for
// positive. Each half is a straight segment in Oklab from the neutral centre to its pole:
//
//   lightness  L(t) = 0.97 - 0.52 |t|        chroma  C(t) = 0.16 |t|
//   hue        258 degrees for t < 0, 25 degrees for t > 0
//
// Oklab distances follow perceived difference, so equal steps of t look equal. Both poles share
// lightness and chroma, so |t| reads the same for either sign, and in grey print it still reads.
// Both segments lie inside sRGB, so nothing is clipped.
#pragma once

#include <cstdint>

namespace hydramix {

struct Rgb {
  uint8_t r = 0, g = 0, b = 0;  // sRGB
  bool operator==(const Rgb&) const = default;
};

struct Oklab {
  double L = 0, a = 0, b = 0;  // L: 0 black to 1 white; a: green to red; b: blue to yellow
};

// A mid grey that the map itself never takes: infinities and NaN must not pass for numbers.
inline constexpr Rgb kNotFiniteColour{128, 128, 128};

// The map before rounding to sRGB; t is clamped to [-1, 1] and must not be NaN.
Oklab diverging_oklab(double t);
// The colour of t in [-1, 1], clamped beyond; kNotFiniteColour where t is not finite.
Rgb diverging_colour(double t);

// Oklab (Ottosson, 2020): linear light -> cone responses -> cube root -> opponent axes, and back.
Oklab oklab_from_rgb(Rgb colour);
Rgb rgb_from_oklab(const Oklab& colour);

}  // namespace hydramix
