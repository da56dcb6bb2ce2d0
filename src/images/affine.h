// SPDX-License-Identifier: Apache-2.0
// Affine maps of images, equal to Pillow's Image.transform(AFFINE) on bytes. The output pixel with
// its centre at (x + 1/2, y + 1/2) takes the value of the input at
//
//   (a (x + 1/2) + b (y + 1/2) + c,  d (x + 1/2) + e (y + 1/2) + f),
//
// interpolated between 2 x 2 or 4 x 4 pixels (Keys' cubic with a = -1; resizing has a = -1/2).
// Outside the input it is the fill colour. Fractions are cut off, not rounded.
#pragma once

#include <array>
#include <cstdint>

#include "images/image.h"
#include "images/resize.h"

namespace hydramix {

struct AffineMap {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};

using ImageColour = std::array<uint8_t, 3>;

// Counterclockwise around the centre, as Image.rotate maps pixels.
AffineMap rotation(double degrees, int64_t height, int64_t width);

Image transform_affine(const Image& image, const AffineMap& map, Interpolation interpolation,
                       const ImageColour& fill);

}  // namespace hydramix
