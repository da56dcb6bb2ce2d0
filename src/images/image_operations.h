// SPDX-License-Identifier: Apache-2.0
// Operations on the values of pixels, equal to Pillow's ImageOps and ImageEnhance on bytes.
#pragma once

#include <cstdint>

#include "images/image.h"

namespace hydramix {

// Stretches each channel so that its darkest value becomes 0 and its brightest 255.
Image autocontrast(Image image);
// Maps each channel through its cumulative histogram, so that all values become about as frequent.
Image equalize(Image image);
Image invert(Image image);
// Keeps the highest `bits` bits of each value, 0..8.
Image posterize(Image image, int64_t bits);
// Inverts the values that are at least `threshold`, 0..256.
Image solarize(Image image, int64_t threshold);
// Adds to the values below 128, up to 255.
Image solarize_add(Image image, int64_t addend);

// Blends with a degenerate image: degenerate + factor (image - degenerate), cut off to 0..255. A
// factor of 1 changes nothing, 0 gives the degenerate image, and more than 1 exaggerates. That
// image is grey for colour, uniform in the mean grey for contrast, black for brightness, and
// smoothed for sharpness.
Image adjust_colour(Image image, double factor);
Image adjust_contrast(Image image, double factor);
Image adjust_brightness(Image image, double factor);
Image adjust_sharpness(Image image, double factor);

// Left and right exchanged.
Image flip(Image image);

}  // namespace hydramix
