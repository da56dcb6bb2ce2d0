// SPDX-License-Identifier: Apache-2.0
// Random erasing (Zhong et al. 2017, "Random erasing data augmentation") in timm's mode "pixel": a
// box of a normalised image is replaced by normal noise, independent for every pixel and channel.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/random.h"
#include "images/resize.h"

namespace hydramix {

// A share of the area uniform in 0.02..1/3 and a ratio of height to width in 0.3..1/0.3, uniform in
// its logarithm. Ten tries for a box smaller than the image in both directions; then none.
std::optional<PixelBox> erased_box(int64_t height, int64_t width, Random& random);

// `pixels` is (3, height, width).
void erase(std::span<float> pixels, int64_t height, int64_t width, const PixelBox& box,
           Random& random);

}  // namespace hydramix
