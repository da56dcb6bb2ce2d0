// SPDX-License-Identifier: Apache-2.0
// A frame is a box one pixel larger, drawn under the picture.
#include "view/page_parts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "hydramix/error.h"

namespace hydramix::page_parts {
namespace {

constexpr int64_t kSliver = 24;       // pixels; a single row or column would be too thin to see
constexpr int64_t kLabelPitch = 12;   // pixels between labels, at least
constexpr int64_t kMostLabels = 128;  // more entries per side are drawn smaller than their labels

// The colours along a bar; all neutral when the scale has no extent.
Canvas bar_image(int64_t length, bool upright, bool neutral) {
  Canvas image(upright ? 1 : length, upright ? length : 1, diverging_colour(0));
  for (int64_t i = 0; i < length && !neutral; ++i) {
    const double t = 2.0 * static_cast<double>(i) / static_cast<double>(length - 1) - 1.0;
    if (upright)
      image.set(0, i, diverging_colour(-t));
    else
      image.set(i, 0, diverging_colour(t));
  }
  return image;
}

}  // namespace

Size measure(const MatrixPicture& picture, const Target& target, int64_t cell_pixels) {
  if (cell_pixels > 0) return {1, picture.cols * cell_pixels, picture.rows * cell_pixels};
  Size size;
  const int64_t longest = std::max(picture.rows, picture.cols);
  size.block = divide_up(longest, target.most_entries);
  const int64_t rows = divide_up(picture.rows, size.block);
  const int64_t cols = divide_up(picture.cols, size.block);
  const int64_t entries = std::max(rows, cols);
  const int64_t fewest = picture.labelled() && entries <= kMostLabels ? kLabelPitch : 1;
  const int64_t pixels = std::max(fewest, (target.side + entries / 2) / entries);
  size.width = cols * std::max(pixels, divide_up(kSliver, cols));
  size.height = rows * std::max(pixels, divide_up(kSliver, rows));
  return size;
}

LabelSpace label_space(const MatrixPicture& picture) {
  const auto longest = [](const std::vector<std::string>& labels) {
    std::size_t columns = 0;
    for (const std::string& label : labels)
      columns = std::max(columns, text_columns(label_text(label, kLabelColumns)));
    return columns == 0 ? 0 : text_width(columns, kPlain) + kLabelToImage;
  };
  return {longest(picture.row_labels), longest(picture.col_labels)};
}

void add_labels(Page& page, const MatrixPicture& picture, const Size& size, const Rect& area) {
  // Adds the labels of one axis; `pixels` is the length of that side of the image.
  const auto add_axis = [&](const std::vector<std::string>& labels, int64_t pixels, auto add) {
    const auto entries = divide_up(static_cast<int64_t>(labels.size()), size.block);
    if (entries == 0) return;
    const int64_t pitch = pixels / entries, step = divide_up(kLabelPitch, pitch);
    for (int64_t entry = 0; entry < entries; entry += step) {
      const auto& label = labels[static_cast<std::size_t>(entry * size.block)];
      // A line of text is as high above its baseline as an entry's middle allows.
      add(label_text(label, kLabelColumns),
          entry * pitch + (std::max(pitch, kLabelPitch) - text_height(kPlain)) / 2);
    }
  };
  const auto width = [](const std::string& label) {
    return text_width(text_columns(label), kPlain);
  };
  add_axis(picture.row_labels, area.height, [&](const std::string& label, int64_t at) {
    add_text(page, area.x - kLabelToImage - width(label), area.y + at, label, kPlain, kInk);
  });
  add_axis(picture.col_labels, area.width, [&](const std::string& label, int64_t at) {
    add_text(page, area.x + at, area.y - kLabelToImage - width(label), label, kPlain, kInk);
    if (!label.empty()) page.texts.back().upwards = true;
  });
}

std::string size_note(const MatrixPicture& picture, const Size& size) {
  std::string note = fmt::format("{} x {}", picture.rows, picture.cols);
  if (size.block > 1) note += fmt::format(", means of {0} x {0}", size.block);
  if (const int64_t odd = count_not_finite(picture); odd > 0)
    note += fmt::format(", {} not finite", odd);
  return note;
}

std::string scale_note(const MatrixPicture& picture) {
  std::string note = fmt::format("scale {:.3g}", colour_scale(picture));
  if (const double largest = largest_magnitude(picture); largest > colour_scale(picture))
    note += fmt::format(", largest {:.3g}", largest);
  return note;
}

void check_page_size(const Page& page) {
  HYDRAMIX_CHECK(page.width <= kLargestPage && page.height <= kLargestPage,
                 "matrix page: would be ", page.width, " x ", page.height, " pixels; at most ",
                 kLargestPage,
                 " a side are drawn. Draw fewer or smaller matrices, fewer pixels an entry, or "
                 "another number of columns.");
}

void add_text(Page& page, int64_t x, int64_t y, std::string text, TextStyle style, Rgb colour) {
  if (!text.empty()) page.texts.push_back({x, y, std::move(text), style, colour});
}

void add_image(Page& page, const Rect& area, Canvas image) {
  page.boxes.push_back({{area.x - 1, area.y - 1, area.width + 2, area.height + 2}, kFrame});
  page.images.push_back({area, std::move(image)});
}

std::vector<Tick> scale_ticks(double scale) {
  if (scale == 0) return {{0.5, "0"}};
  return {{0.0, fmt::format("-{:.3g}", scale)}, {0.5, "0"}, {1.0, fmt::format("+{:.3g}", scale)}};
}

void add_vertical_bar(Page& page, const Rect& area, double scale) {
  for (const Tick& tick : scale_ticks(scale)) {
    const int64_t y =
        area.y + std::llround((1.0 - tick.place) * static_cast<double>(area.height - 1));
    const int64_t right = area.x + area.width + 1;
    page.boxes.push_back({{right, y, kTick, 1}, kMuted});
    add_text(page, right + kTick + kTickToLabel, y - 4, tick.label, kPlain, kInk);
  }
  add_image(page, area, bar_image(area.height, /*upright=*/true, scale == 0));
}

int64_t horizontal_bar_height() {
  return kBarThickness + 1 + kTick + kTickToLabel + text_height(kPlain);
}

// Labels stand below the bar, the outer ones flush with its ends so that it takes no more width.
void add_horizontal_bar(Page& page, const Rect& area, const std::vector<Tick>& ticks) {
  for (const Tick& tick : ticks) {
    const int64_t x = area.x + std::llround(tick.place * static_cast<double>(area.width - 1));
    const int64_t y = area.y + area.height + 1;
    const int64_t width = text_width(tick.label.size(), kPlain);
    page.boxes.push_back({{x, y, 1, kTick}, kMuted});
    add_text(page, x - std::llround(tick.place * static_cast<double>(width)),
             y + kTick + kTickToLabel, tick.label, kPlain, kInk);
  }
  add_image(page, area, bar_image(area.width, /*upright=*/false, /*neutral=*/ticks.size() == 1));
}

}  // namespace hydramix::page_parts
