// SPDX-License-Identifier: Apache-2.0
// Antialiased resizing, equal to Pillow's crop and resize on bytes. With s inputs per output, the
// output x is a weighted mean of the inputs around its centre c = (x + 1/2) s,
//
//   out[x] = sum_i f((i + 1/2 - c) / max(s, 1)) in[i] / (the sum of the weights),
//
// over the pixels that the source box touches. f is the triangle (bilinear) or Keys' cubic with
// a = -1/2 (bicubic; Keys 1981, "Cubic convolution interpolation for digital image processing").
// Columns are resampled first, and the result is rounded to bytes before the rows are.
#pragma once

#include <cstdint>

#include "images/image.h"
#include "images/image_part.h"

namespace hydramix {

// A rectangle of whole pixels.
struct PixelBox {
  int64_t top = 0, left = 0, height = 0, width = 0;
  bool operator==(const PixelBox&) const = default;
};

enum class Interpolation { kBilinear, kBicubic };

struct Resizing {
  ImageBox source;  // the part of the image that is resized; its edges may lie inside pixels
  ImageSize size;   // to this size
  PixelBox window;  // the part of the result that is computed and returned
  Interpolation interpolation = Interpolation::kBicubic;
};

// The source must lie in the image and the window in the result; neither may be empty.
Image resize(const Image& image, const Resizing& resizing);

}  // namespace hydramix
