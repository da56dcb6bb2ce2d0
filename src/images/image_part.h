// SPDX-License-Identifier: Apache-2.0
// A part of a picture. A transform that crops a picture and then resizes it needs only some of its
// pixels, at a resolution near the final one. It says which, and a JPEG is decoded at a half, a
// quarter or an eighth where that is enough.
#pragma once

#include <cstdint>
#include <functional>

#include "images/image.h"

namespace hydramix {

struct ImageSize {
  int64_t height = 0, width = 0;
  bool operator==(const ImageSize&) const = default;
};

// A rectangle in pixels; the top left corner of the picture is (0, 0).
struct ImageBox {
  double top = 0, left = 0, height = 0, width = 0;
  bool operator==(const ImageBox&) const = default;
};

// A box of the full picture, and the size to which it will be resized.
struct WantedPart {
  ImageBox box;
  ImageSize size;
};

// Chooses the part of a picture of this size.
using ChoosePart = std::function<WantedPart(const ImageSize& full)>;

// Pixels that include the part, at full or reduced resolution: `box` is the part in pixels of
// `image`.
struct ImagePart {
  Image image;
  ImageBox box;
};

// The largest of 1, 2, 4 and 8 by which both sides of the box can be divided without getting
// smaller than the size wanted.
int reduction_of(const WantedPart& wanted);

}  // namespace hydramix
