// SPDX-License-Identifier: Apache-2.0
// The two matrices of Oklab are its definition; the inverses are computed from them at compile
// time, so that forward and back agree to rounding and no second table can drift.
#include "view/colour_map.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace hydramix {
namespace {

constexpr double kCentreLightness = 0.97, kPoleLightness = 0.45, kPoleChroma = 0.16;
constexpr double kBlueHue = 258.0, kRedHue = 25.0;  // degrees in the (a, b) plane

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

constexpr Matrix kConesFromLinear{{{0.4122214708, 0.5363325363, 0.0514459929},
                                   {0.2119034982, 0.6806995451, 0.1073969566},
                                   {0.0883024619, 0.2817188376, 0.6299787005}}};
constexpr Matrix kLabFromCones{{{0.2104542553, 0.7936177850, -0.0040720468},
                                {1.9779984951, -2.4285922050, 0.4505937099},
                                {0.0259040371, 0.7827717662, -0.8086757660}}};

constexpr Matrix inverse(const Matrix& m) {
  // Rows of cofactors by cyclic indices: the sign of the checkerboard is then built in.
  Matrix out{};
  double determinant = 0;
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) {
      const std::size_t i1 = (i + 1) % 3, i2 = (i + 2) % 3, j1 = (j + 1) % 3, j2 = (j + 2) % 3;
      out[j][i] = m[i1][j1] * m[i2][j2] - m[i1][j2] * m[i2][j1];
      if (i == 0) determinant += m[0][j] * out[j][0];
    }
  for (Vector& row : out)
    for (double& entry : row) entry /= determinant;
  return out;
}

constexpr Matrix kLinearFromCones = inverse(kConesFromLinear);
constexpr Matrix kConesFromLab = inverse(kLabFromCones);

Vector multiply(const Matrix& m, const Vector& v) {
  Vector out{};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) out[i] += m[i][j] * v[j];
  return out;
}

// The sRGB transfer curve, IEC 61966-2-1.
double linear_from_srgb(uint8_t byte) {
  const double s = byte / 255.0;
  return s <= 0.04045 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4);
}

uint8_t srgb_from_linear(double light) {
  const double clamped = std::clamp(light, 0.0, 1.0);
  const double s =
      clamped <= 0.0031308 ? 12.92 * clamped : 1.055 * std::pow(clamped, 1 / 2.4) - 0.055;
  return static_cast<uint8_t>(std::lround(255.0 * s));
}

}  // namespace

Oklab oklab_from_rgb(Rgb colour) {
  Vector cones = multiply(kConesFromLinear, {linear_from_srgb(colour.r), linear_from_srgb(colour.g),
                                             linear_from_srgb(colour.b)});
  for (double& cone : cones) cone = std::cbrt(cone);
  const Vector lab = multiply(kLabFromCones, cones);
  return {lab[0], lab[1], lab[2]};
}

Rgb rgb_from_oklab(const Oklab& colour) {
  Vector cones = multiply(kConesFromLab, {colour.L, colour.a, colour.b});
  for (double& cone : cones) cone = cone * cone * cone;
  const Vector light = multiply(kLinearFromCones, cones);
  return {srgb_from_linear(light[0]), srgb_from_linear(light[1]), srgb_from_linear(light[2])};
}

Oklab diverging_oklab(double t) {
  const double size = std::min(std::abs(t), 1.0);
  const double hue = (t < 0 ? kBlueHue : kRedHue) * std::numbers::pi / 180.0;
  const double chroma = kPoleChroma * size;
  return {kCentreLightness + (kPoleLightness - kCentreLightness) * size, chroma * std::cos(hue),
          chroma * std::sin(hue)};
}

Rgb diverging_colour(double t) {
  if (!std::isfinite(t)) return kNotFiniteColour;
  return rgb_from_oklab(diverging_oklab(t));
}

}  // namespace hydramix
