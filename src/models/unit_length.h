// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <vector>

namespace hydramix {

// The sum of the squares in float64, so that a scaled vector has length 1 up to the rounding of its
// entries.
inline double squared_length(const std::vector<float>& vector) {
  double squares = 0;
  for (const float value : vector) squares += static_cast<double>(value) * value;
  return squares;
}

// A zero vector stays zero.
inline void scale_to_unit_length(std::vector<float>& vector) {
  const double squares = squared_length(vector);
  if (!(squares > 0)) return;
  for (float& value : vector) value = static_cast<float>(value / std::sqrt(squares));
}

}  // namespace hydramix
