// SPDX-License-Identifier: Apache-2.0
// A matrix as an image of one pixel an entry, coloured on the symmetric scale [-m, m] with
// m = max |value| unless the picture names another. A matrix with more entries than there is room
// for pixels is averaged over square blocks; m stays that of the entries themselves, and an entry
// that is not finite shows through the average of its block.
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
  double scale = 0;            // m; entries beyond it get its end colours. 0: the largest magnitude
};

// Throws unless the matrix has entries and as many values as it says.
void check_picture(const MatrixPicture& picture);

// max |value| over the finite entries; 0 when there is none.
double largest_magnitude(const MatrixPicture& picture);
// The m of the picture's colours.
double colour_scale(const MatrixPicture& picture);
int64_t count_not_finite(const MatrixPicture& picture);

// (ceil(rows / block), ceil(cols / block)) pixels.
Canvas matrix_image(const MatrixPicture& picture, double scale, int64_t block);

}  // namespace hydramix
