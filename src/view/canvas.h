// SPDX-License-Identifier: Apache-2.0
// A small raster: eight-bit RGB, row 0 on top, and the three things a page of matrices is made of:
// rectangles (a straight line is one that is a pixel thick), magnified images, text. Whatever
// leaves the canvas is cut off at its edge.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "view/colour_map.h"
#include "view/text.h"

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
  // Stretches the image over the area, each of its pixels to a rectangle of the same size: the
  // sides of the area must be multiples of the image's.
  void draw(const Canvas& image, const Rect& area);
  // (x, y) is the top left corner of the first capital.
  void write(std::string_view text, int64_t x, int64_t y, TextStyle style, Rgb colour);

 private:
  int64_t width_, height_;
  std::vector<uint8_t> bytes_;
};

}  // namespace hydramix
