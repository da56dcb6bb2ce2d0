// SPDX-License-Identifier: Apache-2.0
#include "images/image_operations.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace hydramix {
namespace {

using ByteTable = std::array<uint8_t, 256>;
using ChannelTables = std::array<ByteTable, 3>;
using ByteCounts = std::array<int64_t, 256>;

template <class Function>
ByteTable byte_table(Function f) {
  ByteTable table;
  for (int i = 0; i < 256; ++i) table[static_cast<std::size_t>(i)] = static_cast<uint8_t>(f(i));
  return table;
}

Image mapped(Image image, const ChannelTables& tables) {
  for (std::size_t i = 0; i < image.rgb.size(); i += 3)
    for (std::size_t c = 0; c < 3; ++c) image.rgb[i + c] = tables[c][image.rgb[i + c]];
  return image;
}

Image mapped(Image image, const ByteTable& table) {
  for (auto& value : image.rgb) value = table[value];
  return image;
}

std::array<ByteCounts, 3> histograms(const Image& image) {
  std::array<ByteCounts, 3> counts{};
  for (std::size_t i = 0; i < image.rgb.size(); i += 3)
    for (std::size_t c = 0; c < 3; ++c) ++counts[c][image.rgb[i + c]];
  return counts;
}

ByteTable stretching_table(const ByteCounts& counts) {
  int low = 0, high = 255;
  while (low < 255 && counts[static_cast<std::size_t>(low)] == 0) ++low;
  while (high > 0 && counts[static_cast<std::size_t>(high)] == 0) --high;
  if (high <= low) return byte_table([](int i) { return i; });
  const double scale = 255.0 / (high - low), offset = -low * scale;
  return byte_table(
      [&](int i) { return std::clamp(static_cast<int>(i * scale + offset), 0, 255); });
}

ByteTable equalizing_table(const ByteCounts& counts) {
  int64_t total = 0, last = 0;
  for (const int64_t count : counts) {
    total += count;
    if (count > 0) last = count;
  }
  const int64_t step = (total - last) / 255;
  if (step == 0) return byte_table([](int i) { return i; });
  int64_t sum = step / 2;
  return byte_table([&](int i) {
    const int64_t value = sum / step;
    sum += counts[static_cast<std::size_t>(i)];
    return std::min<int64_t>(value, 255);
  });
}

// In float32, as Pillow does: the fraction is cut off.
uint8_t blended(int degenerate, int value, float factor) {
  const float sum =
      static_cast<float>(degenerate) + factor * static_cast<float>(value - degenerate);
  return static_cast<uint8_t>(std::max(0.0f, std::min(sum, 255.0f)));
}

// ITU-R BT.601 luma in 16 bits of fraction.
int luma(const uint8_t* pixel) {
  return (19595 * pixel[0] + 38470 * pixel[1] + 7471 * pixel[2] + (1 << 15)) >> 16;
}

}  // namespace

Image autocontrast(Image image) {
  const auto counts = histograms(image);
  return mapped(std::move(image),
                ChannelTables{stretching_table(counts[0]), stretching_table(counts[1]),
                              stretching_table(counts[2])});
}

Image equalize(Image image) {
  const auto counts = histograms(image);
  return mapped(std::move(image),
                ChannelTables{equalizing_table(counts[0]), equalizing_table(counts[1]),
                              equalizing_table(counts[2])});
}

Image invert(Image image) {
  return mapped(std::move(image), byte_table([](int i) { return 255 - i; }));
}

Image posterize(Image image, int64_t bits) {
  const int mask = 0xff & ~((1 << (8 - bits)) - 1);
  return mapped(std::move(image), byte_table([&](int i) { return i & mask; }));
}

Image solarize(Image image, int64_t threshold) {
  return mapped(std::move(image), byte_table([&](int i) { return i < threshold ? i : 255 - i; }));
}

Image solarize_add(Image image, int64_t addend) {
  return mapped(std::move(image), byte_table([&](int i) {
                  return i < 128 ? std::min<int64_t>(255, i + addend) : i;
                }));
}

Image adjust_colour(Image image, double factor) {
  const auto share = static_cast<float>(factor);
  for (std::size_t i = 0; i < image.rgb.size(); i += 3) {
    const int grey = luma(&image.rgb[i]);
    for (std::size_t c = 0; c < 3; ++c) image.rgb[i + c] = blended(grey, image.rgb[i + c], share);
  }
  return image;
}

Image adjust_contrast(Image image, double factor) {
  int64_t sum = 0;
  for (std::size_t i = 0; i < image.rgb.size(); i += 3) sum += luma(&image.rgb[i]);
  const auto pixels = static_cast<double>(image.height * image.width);
  const int mean = static_cast<int>(std::floor(static_cast<double>(sum) / pixels + 0.5));
  const auto share = static_cast<float>(factor);
  return mapped(std::move(image), byte_table([&](int i) { return blended(mean, i, share); }));
}

Image adjust_brightness(Image image, double factor) {
  const auto share = static_cast<float>(factor);
  return mapped(std::move(image), byte_table([&](int i) { return blended(0, i, share); }));
}

// The smoothed image is (sum of the 3 x 3 pixels + 4 times the middle) / 13, rounded; its border is
// the image's. Pillow computes it in float32. That gives the same bytes: a thirteenth is never half
// way between whole numbers, and at least 1/26 from there.
Image adjust_sharpness(Image image, double factor) {
  const auto share = static_cast<float>(factor);
  const Image original = image;
  const int64_t row = 3 * image.width;
  for (int64_t y = 1; y + 1 < image.height; ++y)
    for (int64_t i = 3; i + 3 < row; ++i) {
      const uint8_t* middle = original.rgb.data() + y * row + i;
      int sum = 4 * middle[0];
      for (const int64_t line : {-row, int64_t{0}, row})
        sum += middle[line - 3] + middle[line] + middle[line + 3];
      image.rgb[static_cast<std::size_t>(y * row + i)] =
          blended((2 * sum + 13) / 26, middle[0], share);
    }
  return image;
}

Image flip(Image image) {
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t left = 0, right = image.width - 1; left < right; ++left, --right)
      std::swap_ranges(image.pixel(y, left), image.pixel(y, left) + 3, image.pixel(y, right));
  return image;
}

}  // namespace hydramix
