// SPDX-License-Identifier: Apache-2.0
// Which part of an image a network sees. In training a random one: a box of random area and aspect
// ratio that is resized (Szegedy et al. 2015, "Going deeper with convolutions"), or for small
// images a shift by at most `padding` pixels over a black border (He et al. 2015, "Deep residual
// learning", 4.2). In evaluation the centre.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "images/image.h"
#include "images/resize.h"

namespace hydramix {

struct CropRange {
  double low_scale = 0.08, high_scale = 1;           // share of the image's area
  double low_ratio = 3.0 / 4, high_ratio = 4.0 / 3;  // width over height
};

// Ten tries: an area uniform in its range, and a ratio whose logarithm is uniform; the box must
// fit. Then the largest central box whose ratio is in the range, as in torchvision.
PixelBox random_crop_box(const ImageSize& image, const CropRange& range, Random& random);

// Resizes so that the shorter side is size / fraction, rounded down, and takes the central square
// of `size`: with 224 and 0.875 the usual "resize 256, crop 224".
Resizing centre_crop(const ImageSize& image, int64_t size, double fraction);

// The part of the image that a square of its own size covers after a shift by (down, right) pixels;
// black where it lies outside.
Image shifted(const Image& image, int64_t down, int64_t right);

}  // namespace hydramix
