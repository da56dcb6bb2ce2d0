// SPDX-License-Identifier: Apache-2.0
// The layout of matrices: the rectangles, images and texts of a page and their places, in whole
// pixels. Row 0 of a matrix is on top, and every entry takes the same whole number of pixels.
//
// A labelled page (SVG) shows one picture with a colour bar at its right, or a gallery: a grid in
// which each picture has its own scale, written under it, and one colour bar serves all. Texts are
// shortened or wrapped to their cell. Labels of rows stand at the left of a matrix, those of
// columns above it, turned to read upwards; where entries are too small for a line of text, only
// every n-th label is shown. A page of pixels (PNG) has the pictures alone, in the same order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "view/canvas.h"
#include "view/matrix_image.h"
#include "view/text.h"
#include "view/theme.h"

namespace hydramix {

inline constexpr int64_t kLargestPage = 20000;  // pixels per side

struct PageOptions {
  std::string title;        // of the page; none if empty
  int64_t columns = 0;      // of a gallery; 0: as many as suit a page 1200 pixels wide
  int64_t cell_pixels = 0;  // the side of an entry; 0: chosen by the size of the matrix
};

struct PageBox {
  Rect area;
  Rgb colour;
};
struct PageImage {
  Rect area;  // its sides are multiples of the image's
  Canvas image;
  bool photo = false;  // keeps its colours on a dark background
};
struct PageText {
  int64_t x = 0, y = 0;  // top left corner of the area that the text takes on the page
  std::string text;      // printable ASCII; labels: UTF-8
  TextStyle style;
  Rgb colour;
  bool upwards = false;  // turned by 90 degrees to the left

  Rect area() const;
};

struct Page {
  int64_t width = 0, height = 0;
  std::string title;  // for screen readers
  Rgb background = kPaper;
  std::vector<PageBox> boxes;     // drawn first,
  std::vector<PageImage> images;  // then these: the colour bar, then the matrices in order
  std::vector<PageText> texts;    // and these on top
};

Page layout_page(const std::vector<MatrixPicture>& pictures, const PageOptions& options);
// Without title, labels and colour bars.
Page layout_pixels(const std::vector<MatrixPicture>& pictures, const PageOptions& options);

}  // namespace hydramix
