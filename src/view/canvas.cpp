// SPDX-License-Identifier: Apache-2.0
// Everything is drawn through fill(), which clips. Pages hold a few million pixels, so plain loops
// take milliseconds.
#include "view/canvas.h"

#include <algorithm>

#include "hydramix/error.h"

namespace hydramix {

Canvas::Canvas(int64_t width, int64_t height, Rgb background) : width_(width), height_(height) {
  HYDRAMIX_CHECK(width >= 1 && height >= 1, "canvas: needs at least 1 x 1 pixels; got ", width,
                 " x ", height, ".");
  bytes_.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  fill({0, 0, width, height}, background);
}

Rgb Canvas::at(int64_t x, int64_t y) const {
  const uint8_t* pixel = &bytes_[static_cast<std::size_t>(3 * (y * width_ + x))];
  return {pixel[0], pixel[1], pixel[2]};
}

void Canvas::set(int64_t x, int64_t y, Rgb colour) {
  uint8_t* pixel = &bytes_[static_cast<std::size_t>(3 * (y * width_ + x))];
  pixel[0] = colour.r;
  pixel[1] = colour.g;
  pixel[2] = colour.b;
}

void Canvas::fill(const Rect& area, Rgb colour) {
  const int64_t right = std::min(width_, area.x + area.width);
  const int64_t bottom = std::min(height_, area.y + area.height);
  for (int64_t y = std::max<int64_t>(0, area.y); y < bottom; ++y)
    for (int64_t x = std::max<int64_t>(0, area.x); x < right; ++x) set(x, y, colour);
}

void Canvas::draw(const Canvas& image, const Rect& area) {
  HYDRAMIX_CHECK(area.width % image.width() == 0 && area.height % image.height() == 0,
                 "canvas: an image of ", image.width(), " x ", image.height(),
                 " pixels cannot fill ", area.width, " x ", area.height,
                 " evenly. Choose whole multiples.");
  const int64_t dx = area.width / image.width(), dy = area.height / image.height();
  for (int64_t y = 0; y < image.height(); ++y)
    for (int64_t x = 0; x < image.width(); ++x)
      fill({area.x + x * dx, area.y + y * dy, dx, dy}, image.at(x, y));
}

}  // namespace hydramix
