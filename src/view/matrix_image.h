// SPDX-License-Identifier: Apache-2.0
// A matrix as an image, one pixel per entry, coloured on the symmetric scale [-m, m] with m = max
// |value| unless the picture sets another. A matrix that is too large is averaged over square
// blocks; m remains that of the entries. A block with an entry that is not finite has the colour of
// such an entry.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "view/canvas.h"

namespace hydramix {

struct MatrixPicture {
  std::string title, subtitle;
  int64_t rows = 0, cols = 0;
  std::vector<double> values;  // (rows, cols), row-major
  double scale = 0;            // m; larger entries get the end colours. 0: the largest magnitude
  // Along the axes, in UTF-8: one for each row and column, such as the tokens of a text, or none.
  std::vector<std::string> row_labels = {}, col_labels = {};

  bool labelled() const { return !row_labels.empty() || !col_labels.empty(); }
};

// Throws unless the matrix has entries, rows * cols values, and labels for all or none.
void check_picture(const MatrixPicture& picture);

// max |value| over the finite entries; 0 when there is none.
double largest_magnitude(const MatrixPicture& picture);
// The m of the picture's colours.
double colour_scale(const MatrixPicture& picture);
int64_t count_not_finite(const MatrixPicture& picture);

// (ceil(rows / block), ceil(cols / block)) pixels.
Canvas matrix_image(const MatrixPicture& picture, double scale, int64_t block);

}  // namespace hydramix
