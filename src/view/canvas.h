// SPDX-License-Identifier: Apache-2.0
// A small raster: eight-bit RGB, row 0 on top, with rectangles and magnified images. Drawing is
// clipped to the canvas.
#pragma once

#include <cstdint>
#include <vector>

#include "view/colour_map.h"

namespace hydramix {

struct Rect {
  int64_t x = 0, y = 0, width = 0, height = 0;  // pixels; x to the right, y downwards
};

class Canvas {
 public:
  Canvas(int64_t width, int64_t height, Rgb background);

  int64_t width() const { return width_; }
  int64_t height() const { return height_; }
  // Inside the canvas only.
  Rgb at(int64_t x, int64_t y) const;
  void set(int64_t x, int64_t y, Rgb colour);
  const std::vector<uint8_t>& bytes() const { return bytes_; }  // (height, width, 3)

  void fill(const Rect& area, Rgb colour);
  // Magnifies the image to fill the area. The sides of the area must be multiples of the image's.
  void draw(const Canvas& image, const Rect& area);

 private:
  int64_t width_, height_;
  std::vector<uint8_t> bytes_;
};

}  // namespace hydramix
