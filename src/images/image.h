// SPDX-License-Identifier: Apache-2.0
// A picture in memory.
#pragma once

#include <cstdint>
#include <vector>

namespace hydramix {

// Rows from the top, pixels from the left, red, green and blue of 8 bits each.
struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb;  // height * width * 3

  Image() = default;
  Image(int64_t rows, int64_t columns)
      : height(rows), width(columns), rgb(static_cast<std::size_t>(rows * columns * 3)) {}

  uint8_t* pixel(int64_t y, int64_t x) { return rgb.data() + (y * width + x) * 3; }
  const uint8_t* pixel(int64_t y, int64_t x) const { return rgb.data() + (y * width + x) * 3; }
};

}  // namespace hydramix
