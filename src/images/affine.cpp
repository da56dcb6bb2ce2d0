// SPDX-License-Identifier: Apache-2.0
// Everything is in float64 and in Pillow's order of operations: a result just below a whole number
// is cut off, so a rounding error would be seen in the byte. Shears and translations leave one
// coordinate on pixel centres, where the interpolation along it returns a value unchanged and is
// skipped.
#include "images/affine.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

namespace hydramix {
namespace {

// Rounds to 15 decimals, like Python's round(), so that the cosine of a right angle is exactly
// zero.
double rounded_decimal(double value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, 15);
  double rounded = 0;
  std::from_chars(text, end.ptr, rounded);
  return rounded;
}

double cubic(double v1, double v2, double v3, double v4, double t) {
  const double p2 = -v1 + v3, p3 = 2 * (v1 - v2) + v3 - v4, p4 = -v1 + v2 - v3 + v4;
  return v2 + t * (p2 + t * (p3 + t * p4));
}

// The neighbours of a coordinate in [0, size), clamped to the image, as offsets, and the fraction
// between the middle ones.
struct Neighbours {
  int64_t offsets[4];
  double fraction;

  Neighbours(double at, int64_t size, int64_t step) {
    const double place = at - 0.5;
    const int64_t base = place < 0 ? -1 : static_cast<int64_t>(place);  // floor, without a call
    fraction = place - static_cast<double>(base);
    for (int64_t k = 0; k < 4; ++k)
      offsets[k] = std::clamp<int64_t>(base - 1 + k, 0, size - 1) * step;
  }
};

double bilinear_row(const uint8_t* row, const Neighbours& x) {
  const double left = row[x.offsets[1]], right = row[x.offsets[2]];
  return left + (right - left) * x.fraction;
}

double bicubic_row(const uint8_t* row, const Neighbours& x) {
  if (x.fraction == 0) return row[x.offsets[1]];
  return cubic(row[x.offsets[0]], row[x.offsets[1]], row[x.offsets[2]], row[x.offsets[3]],
               x.fraction);
}

double interpolated(const uint8_t* pixels, const Neighbours& y, const Neighbours& x,
                    Interpolation kind) {
  if (kind == Interpolation::kBilinear) {
    const double upper = bilinear_row(pixels + y.offsets[1], x);
    return y.fraction == 0 ? upper
                           : upper + (bilinear_row(pixels + y.offsets[2], x) - upper) * y.fraction;
  }
  if (y.fraction == 0) return bicubic_row(pixels + y.offsets[1], x);
  return cubic(bicubic_row(pixels + y.offsets[0], x), bicubic_row(pixels + y.offsets[1], x),
               bicubic_row(pixels + y.offsets[2], x), bicubic_row(pixels + y.offsets[3], x),
               y.fraction);
}

}  // namespace

AffineMap rotation(double degrees, int64_t height, int64_t width) {
  double turn = std::fmod(degrees, 360.0);
  if (turn < 0) turn += 360.0;
  const double angle = -(turn * (std::numbers::pi / 180.0));
  AffineMap map;
  map.a = map.e = rounded_decimal(std::cos(angle));
  map.b = rounded_decimal(std::sin(angle));
  map.d = rounded_decimal(-std::sin(angle));
  const double x = static_cast<double>(width) / 2, y = static_cast<double>(height) / 2;
  map.c = map.a * -x + map.b * -y + 0.0 + x;
  map.f = map.d * -x + map.e * -y + 0.0 + y;
  return map;
}

Image transform_affine(const Image& image, const AffineMap& map, Interpolation interpolation,
                       const ImageColour& fill) {
  Image out(image.height, image.width);
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  for (int64_t row = 0; row < out.height; ++row)
    for (int64_t column = 0; column < out.width; ++column) {
      const double x = static_cast<double>(column) + 0.5, y = static_cast<double>(row) + 0.5;
      const double from_x = map.a * x + map.b * y + map.c, from_y = map.d * x + map.e * y + map.f;
      uint8_t* to = out.pixel(row, column);
      if (from_x < 0 || from_x >= width || from_y < 0 || from_y >= height) {
        std::copy(fill.begin(), fill.end(), to);
        continue;
      }
      const Neighbours across(from_x, image.width, 3), down(from_y, image.height, 3 * image.width);
      for (int64_t c = 0; c < 3; ++c)
        to[c] = static_cast<uint8_t>(std::clamp(
            interpolated(image.rgb.data() + c, down, across, interpolation), 0.0, 255.0));
    }
  return out;
}

}  // namespace hydramix
