// SPDX-License-Identifier: Apache-2.0
#include "images/random_erasing.h"

#include <cmath>

#include "images/distributions.h"

namespace hydramix {

std::optional<PixelBox> erased_box(int64_t height, int64_t width, Random& random) {
  constexpr double kLeastArea = 0.02, kLargestArea = 1.0 / 3;
  const double least_log = std::log(0.3);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = (kLeastArea + (kLargestArea - kLeastArea) * random.uniform()) *
                        static_cast<double>(height * width);
    const double ratio = std::exp(least_log * (1 - 2 * random.uniform()));
    const auto h = static_cast<int64_t>(std::nearbyint(std::sqrt(area * ratio)));
    const auto w = static_cast<int64_t>(std::nearbyint(std::sqrt(area / ratio)));
    if (h < 1 || w < 1 || h >= height || w >= width) continue;
    const int64_t top = random.below(height - h + 1);
    return PixelBox{top, random.below(width - w + 1), h, w};
  }
  return std::nullopt;
}

void erase(std::span<float> pixels, int64_t height, int64_t width, const PixelBox& box,
           Random& random) {
  for (int64_t c = 0; c < 3; ++c)
    for (int64_t y = box.top; y < box.top + box.height; ++y)
      fill_normal(random,
                  pixels.subspan(static_cast<std::size_t>((c * height + y) * width + box.left),
                                 static_cast<std::size_t>(box.width)));
}

}  // namespace hydramix
