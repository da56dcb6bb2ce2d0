// SPDX-License-Identifier: Apache-2.0
// The layout of a page of matrices: which rectangles, images and texts lie where, in whole pixels.
// The PNG and the SVG writer draw the same list, so their pages look the same.
//
// One picture fills its page, with a colour bar at its right. Several form a gallery: a grid in
// which each has its own scale, written under it, and one colour bar stands for all. Texts are cut
// or wrapped to their cell. Row 0 of a matrix is on top, and each entry takes the same whole number
// of pixels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "view/canvas.h"
#include "view/matrix_image.h"

namespace hydramix {

inline constexpr int64_t kLargestPage = 20000;  // pixels a side

struct PageOptions {
  std::string title;        // of the page; none if empty
  int64_t columns = 0;      // of a gallery; 0: as many as suit a page 1200 pixels wide
  int64_t cell_pixels = 0;  // a side of an entry; 0: what makes the pictures a good size
};

struct PageBox {
  Rect area;
  Rgb colour;
};
struct PageImage {
  Rect area;  // its sides are multiples of the image's
  Canvas image;
};
struct PageText {
  int64_t x = 0, y = 0;  // top left corner of the first capital
  std::string text;      // printable ASCII
  TextStyle style;
  Rgb colour;
};

struct Page {
  int64_t width = 0, height = 0;
  std::string title;  // for the reader who cannot see it
  Rgb background{255, 255, 255};
  std::vector<PageBox> boxes;     // drawn first,
  std::vector<PageImage> images;  // then these: the colour bar, then the matrices in order
  std::vector<PageText> texts;    // and these on top
};

Page layout_page(const std::vector<MatrixPicture>& pictures, const PageOptions& options);

}  // namespace hydramix
