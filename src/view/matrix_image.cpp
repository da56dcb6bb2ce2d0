// SPDX-License-Identifier: Apache-2.0
// Values are divided by the scale before they are summed, so that the largest doubles do not
// overflow and the smallest do not vanish.
#include "view/matrix_image.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hydramix/error.h"

namespace hydramix {
namespace {

// Mean of value / scale over one block.
double block_mean(const MatrixPicture& picture, double scale, const Rect& block) {
  double sum = 0;
  for (int64_t i = block.y; i < block.y + block.height; ++i)
    for (int64_t j = block.x; j < block.x + block.width; ++j) {
      const double value = picture.values[static_cast<std::size_t>(i * picture.cols + j)];
      if (!std::isfinite(value)) return std::numeric_limits<double>::quiet_NaN();
      if (scale > 0) sum += std::clamp(value / scale, -1.0, 1.0);
    }
  return sum / static_cast<double>(block.width * block.height);
}

}  // namespace

void check_picture(const MatrixPicture& picture) {
  HYDRAMIX_CHECK(picture.rows >= 1 && picture.cols >= 1, "matrix picture '", picture.title,
                 "': needs at least one row and one column; got ", picture.rows, " x ",
                 picture.cols, ". Leave empty matrices off the page.");
  const auto count = static_cast<int64_t>(picture.values.size());
  // By division: rows * cols could overflow.
  HYDRAMIX_CHECK(count % picture.cols == 0 && count / picture.cols == picture.rows,
                 "matrix picture '", picture.title, "': ", picture.rows, " x ", picture.cols,
                 " entries do not match the ", count,
                 " values given. Pass every entry once, row by row.");
  const auto check_labels = [&](const std::vector<std::string>& labels, int64_t entries) {
    HYDRAMIX_CHECK(labels.empty() || static_cast<int64_t>(labels.size()) == entries,
                   "matrix picture '", picture.title, "': ", labels.size(), " labels for ", entries,
                   " rows or columns. Give one for each, or none.");
  };
  check_labels(picture.row_labels, picture.rows);
  check_labels(picture.col_labels, picture.cols);
}

double largest_magnitude(const MatrixPicture& picture) {
  double maximum = 0;
  for (const double value : picture.values)
    if (std::isfinite(value)) maximum = std::max(maximum, std::abs(value));
  return maximum;
}

double colour_scale(const MatrixPicture& picture) {
  return picture.scale > 0 ? picture.scale : largest_magnitude(picture);
}

int64_t count_not_finite(const MatrixPicture& picture) {
  return std::count_if(picture.values.begin(), picture.values.end(),
                       [](double value) { return !std::isfinite(value); });
}

Canvas matrix_image(const MatrixPicture& picture, double scale, int64_t block) {
  const int64_t height = (picture.rows + block - 1) / block;
  const int64_t width = (picture.cols + block - 1) / block;
  Canvas image(width, height, diverging_colour(0));
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const Rect entries{x * block, y * block, std::min(block, picture.cols - x * block),
                         std::min(block, picture.rows - y * block)};
      image.set(x, y, diverging_colour(block_mean(picture, scale, entries)));
    }
  return image;
}

}  // namespace hydramix
