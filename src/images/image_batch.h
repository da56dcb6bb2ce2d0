// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace hydramix {

// Returns memory for n numbers, not initialised.
using NewFloats = std::function<std::shared_ptr<float[]>(int64_t n)>;

// Images as numbers for a model, with their classes. Copies share the numbers.
struct ImageBatch {
  std::span<float> pixels;          // (B, 3, height, width)
  std::vector<int64_t> labels;      // (B); -1: a damaged image, to be left out of the evaluation
  std::shared_ptr<float[]> memory;  // holds the pixels
};

}  // namespace hydramix
