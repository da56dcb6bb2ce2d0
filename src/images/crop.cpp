// SPDX-License-Identifier: Apache-2.0
#include "images/crop.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace hydramix {
namespace {

// Rounds to the nearest whole number, halves to the even one, like Python's round().
int64_t rounded_side(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

double uniform_between(Random& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

}  // namespace

PixelBox random_crop_box(const ImageSize& image, const CropRange& range, Random& random) {
  const auto [height, width] = image;
  const double h = static_cast<double>(height), w = static_cast<double>(width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = uniform_between(random, range.low_scale, range.high_scale) * h * w;
    const double ratio =
        std::exp(uniform_between(random, std::log(range.low_ratio), std::log(range.high_ratio)));
    const int64_t crop_width = rounded_side(std::sqrt(area * ratio));
    const int64_t crop_height = rounded_side(std::sqrt(area / ratio));
    if (crop_width < 1 || crop_height < 1 || crop_width > width || crop_height > height) continue;
    const int64_t top = random.below(height - crop_height + 1);
    return {top, random.below(width - crop_width + 1), crop_height, crop_width};
  }
  const int64_t crop_height = std::clamp<int64_t>(rounded_side(w / range.low_ratio), 1, height);
  const int64_t crop_width = std::clamp<int64_t>(rounded_side(h * range.high_ratio), 1, width);
  return {(height - crop_height) / 2, (width - crop_width) / 2, crop_height, crop_width};
}

Resizing centre_crop(const ImageSize& image, int64_t size, double fraction) {
  const auto shorter = static_cast<int64_t>(std::floor(static_cast<double>(size) / fraction));
  const int64_t least = std::min(image.height, image.width);
  Resizing resizing;
  resizing.source = {0, 0, static_cast<double>(image.height), static_cast<double>(image.width)};
  resizing.size = {shorter * image.height / least, shorter * image.width / least};
  const auto margin = [&](int64_t side) {
    return rounded_side(static_cast<double>(side - size) / 2);
  };
  resizing.window = {margin(resizing.size.height), margin(resizing.size.width), size, size};
  return resizing;
}

Image shifted(const Image& image, int64_t down, int64_t right) {
  Image out(image.height, image.width);
  const int64_t from = std::max<int64_t>(0, right);
  const int64_t to = std::min(image.width, image.width + right);
  for (int64_t y = std::max<int64_t>(0, down); y < std::min(image.height, image.height + down); ++y)
    if (from < to)
      std::memcpy(out.pixel(y, from), image.pixel(y - down, from - right),
                  static_cast<std::size_t>(3 * (to - from)));
  return out;
}

}  // namespace hydramix
