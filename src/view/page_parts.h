// SPDX-License-Identifier: Apache-2.0
// The parts of a page of matrices: sizes of pictures, framed images, colour bars, and distances.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "view/matrix_plot.h"
#include "view/theme.h"

namespace hydramix::page_parts {

inline constexpr TextStyle kPlain{11, false}, kStrong{11, true}, kHeading{20, false};

inline constexpr int64_t kMargin = 24, kGapX = 20, kGapY = 26;
inline constexpr int64_t kLinePitch = 14;  // between lines of plain text
inline constexpr int64_t kTextToImage = 6, kImageToCaption = 8;
inline constexpr int64_t kBarThickness = 16, kTick = 4, kTickToLabel = 4;
inline constexpr int64_t kLabelToImage = 5;
inline constexpr std::size_t kLabelColumns = 14;  // the longest label

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The size that a picture should have.
struct Target {
  int64_t side;          // pixels, roughly: an entry takes a whole number
  int64_t most_entries;  // per side; more are averaged
};

struct Size {
  int64_t block = 1;              // side of the block of entries that is averaged into one pixel
  int64_t width = 0, height = 0;  // pixels on the page
};

// Entries of a labelled matrix take at least a line of text, unless there are very many.
Size measure(const MatrixPicture& picture, const Target& target, int64_t cell_pixels);

// The pixels that labels take at the left of a matrix and above it.
struct LabelSpace {
  int64_t left = 0, top = 0;
};

LabelSpace label_space(const MatrixPicture& picture);
// `area` is the image's.
void add_labels(Page& page, const MatrixPicture& picture, const Size& size, const Rect& area);

// "64 x 64", with a remark on averaging and on entries that are not finite.
std::string size_note(const MatrixPicture& picture, const Size& size);
// The scale of the colours, and the largest magnitude if that is larger.
std::string scale_note(const MatrixPicture& picture);

// Throws when the page is larger than kLargestPage.
void check_page_size(const Page& page);

void add_text(Page& page, int64_t x, int64_t y, std::string text, TextStyle style, Rgb colour);
// With a frame of one pixel around the area.
void add_image(Page& page, const Rect& area, Canvas image);

struct Tick {
  double place;  // 0 at the negative end of the bar, 1 at the positive one
  std::string label;
};

// -scale, 0, +scale to three digits; only 0 when the scale is 0.
std::vector<Tick> scale_ticks(double scale);

// A single picture has a vertical bar with its labels on the right; a gallery, or a picture with
// labels of its own, has a horizontal one with its labels below.
void add_vertical_bar(Page& page, const Rect& area, double scale);
void add_horizontal_bar(Page& page, const Rect& area, const std::vector<Tick>& ticks);
int64_t horizontal_bar_height();  // with its labels

}  // namespace hydramix::page_parts
