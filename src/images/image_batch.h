// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace hydramix {

// Images as numbers for a model, with their classes.
struct ImageBatch {
  std::vector<float> pixels;    // (B, 3, height, width)
  std::vector<int64_t> labels;  // (B); -1: a damaged image, to be left out of the evaluation
};

}  // namespace hydramix
