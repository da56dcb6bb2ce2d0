// SPDX-License-Identifier: Apache-2.0
#include "images/crop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

// Every pixel differs from every other.
Image numbered_image(int64_t height, int64_t width) {
  Image image(height, width);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      image.pixel(y, x)[0] = static_cast<uint8_t>(y);
      image.pixel(y, x)[1] = static_cast<uint8_t>(x);
      image.pixel(y, x)[2] = static_cast<uint8_t>(3 * y + 5 * x + 1);
    }
  return image;
}

// The formula of images/resize.h in float64 along one axis; the result is rounded to bytes.
std::vector<double> resampled_line(const std::vector<double>& in, int64_t size, bool cubic) {
  const double s = static_cast<double>(in.size()) / static_cast<double>(size);
  const double width = std::max(s, 1.0);
  std::vector<double> out;
  for (int64_t x = 0; x < size; ++x) {
    const double c = (static_cast<double>(x) + 0.5) * s;
    double sum = 0, weights = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double t = std::abs((static_cast<double>(i) + 0.5 - c) / width);
      double f = std::max(0.0, 1 - t);
      if (cubic)
        f = t < 1   ? 1.5 * t * t * t - 2.5 * t * t + 1
            : t < 2 ? -0.5 * t * t * t + 2.5 * t * t - 4 * t + 2
                    : 0;
      sum += f * in[i];
      weights += f;
    }
    out.push_back(std::clamp(std::floor(sum / weights + 0.5), 0.0, 255.0));
  }
  return out;
}

// Against the formula, pixel by pixel. Fixed point may round the other way where the exact value is
// within 2^-22 times the number of taps of a half, so a difference of 1 is allowed in each pass.
TEST(Resize, IsTheWeightedMeanOfItsDefinition) {
  Image image(37, 50);
  Random random(1, 2, 3);
  for (auto& value : image.rgb) value = static_cast<uint8_t>(random.below(256));
  for (const auto kind : {Interpolation::kBilinear, Interpolation::kBicubic})
    for (const auto& [height, width] : {std::pair(12, 17), std::pair(80, 61), std::pair(37, 9)}) {
      const bool cubic = kind == Interpolation::kBicubic;
      const Image out =
          resize(image, {{0, 0, 37, 50}, {height, width}, {0, 0, height, width}, kind});
      int64_t different = 0;
      for (int64_t c = 0; c < 3; ++c) {
        std::vector<std::vector<double>> rows;
        for (int64_t y = 0; y < 37; ++y) {
          std::vector<double> line;
          for (int64_t x = 0; x < 50; ++x) line.push_back(image.pixel(y, x)[c]);
          rows.push_back(resampled_line(line, width, cubic));
        }
        for (int64_t x = 0; x < width; ++x) {
          std::vector<double> line;
          for (const auto& row : rows) line.push_back(row[static_cast<std::size_t>(x)]);
          const auto expected = resampled_line(line, height, cubic);
          for (int64_t y = 0; y < height; ++y) {
            const double difference = out.pixel(y, x)[c] - expected[static_cast<std::size_t>(y)];
            EXPECT_LE(std::abs(difference), 1) << y << ", " << x;
            different += difference != 0;
          }
        }
      }
      EXPECT_LT(different, 3 * height * width / 100);
    }
}

TEST(Resize, AWindowIsAPartOfTheWhole) {
  const Image image = numbered_image(40, 30);
  const Image whole = resize(image, {{0, 0, 40, 30}, {24, 25}, {0, 0, 24, 25}});
  const Image part = resize(image, {{0, 0, 40, 30}, {24, 25}, {5, 7, 9, 11}});
  ASSERT_EQ(part.height, 9);
  ASSERT_EQ(part.width, 11);
  for (int64_t y = 0; y < 9; ++y)
    EXPECT_TRUE(std::equal(part.pixel(y, 0), part.pixel(y, 0) + 33, whole.pixel(y + 5, 7)));
}

TEST(Resize, TheSameSizeChangesNothing) {
  const Image image = numbered_image(9, 8);
  for (const auto kind : {Interpolation::kBilinear, Interpolation::kBicubic})
    EXPECT_EQ(resize(image, {{0, 0, 9, 8}, {9, 8}, {0, 0, 9, 8}, kind}).rgb, image.rgb);
}

// A box between pixels, as a JPEG decoded at half its size has: a ramp moves by the offset.
TEST(Resize, ABoxMayBeginInsideAPixel) {
  Image ramp(4, 40);
  for (int64_t y = 0; y < 4; ++y)
    for (int64_t x = 0; x < 40; ++x) std::fill_n(ramp.pixel(y, x), 3, static_cast<uint8_t>(4 * x));
  const Image out = resize(ramp, {{0, 10.5, 4, 16}, {4, 16}, {0, 0, 4, 16}});
  for (int64_t x = 2; x < 14; ++x) EXPECT_EQ(int{out.pixel(1, x)[0]}, 4 * (x + 10) + 2) << x;
}

TEST(Resize, RefusesWhatDoesNotFit) {
  const Image image = numbered_image(9, 8);
  EXPECT_THROW_WITH(resize(image, {{0, 1, 9, 8}, {4, 4}, {0, 0, 4, 4}}), Error,
                    "does not lie in an image of 9 x 8");
  EXPECT_THROW_WITH(resize(image, {{0, 0, 9, 0}, {4, 4}, {0, 0, 4, 4}}), Error, "of 9 x 0 pixels");
  EXPECT_THROW_WITH(resize(image, {{0, 0, 9, 8}, {4, 4}, {2, 0, 3, 4}}), Error,
                    "does not lie in a result of 4 x 4");
}

// Areas and ratios that the boxes have are those drawn, up to rounding, unless a box does not fit:
// in a square image with a scale of at most 0.5 all boxes do.
TEST(RandomCrop, AreasAreUniformAndRatiosLogUniform) {
  const CropRange range{0.08, 0.5, 3.0 / 4, 4.0 / 3};
  double area = 0, area_squares = 0, log_ratio = 0, log_squares = 0, top = 0;
  constexpr int kCount = 4000;
  for (uint64_t i = 0; i < kCount; ++i) {
    Random random(1, 2, i);
    const auto box = random_crop_box({1000, 1000}, range, random);
    ASSERT_TRUE(box.top >= 0 && box.left >= 0 && box.top + box.height <= 1000 &&
                box.left + box.width <= 1000);
    const double h = static_cast<double>(box.height), w = static_cast<double>(box.width);
    EXPECT_GT(h * w, 0.079e6);
    EXPECT_LT(h * w, 0.501e6);
    EXPECT_GT(w / h, 0.745);
    EXPECT_LT(w / h, 1.34);
    area += h * w / 1e6;
    area_squares += h * w / 1e6 * (h * w / 1e6);
    log_ratio += std::log(w / h);
    log_squares += std::log(w / h) * std::log(w / h);
    top += static_cast<double>(box.top) / (1000 - h);
  }
  // A uniform number on an interval of length l has the deviation l / sqrt(12).
  const double root = std::sqrt(12.0 * kCount), log_length = 2 * std::log(4.0 / 3);
  EXPECT_NEAR(area / kCount, 0.29, 5 * 0.42 / root);
  EXPECT_NEAR(area_squares / kCount - 0.29 * 0.29, 0.42 * 0.42 / 12, 0.0015);
  EXPECT_NEAR(log_ratio / kCount, 0, 5 * log_length / root);
  EXPECT_NEAR(log_squares / kCount, log_length * log_length / 12, 0.003);
  EXPECT_NEAR(top / kCount, 0.5, 5 / root);
}

// Ten tries fail for a narrow strip. Then the central box with the nearest allowed ratio is used.
TEST(RandomCrop, FallsBackToTheCentre) {
  Random random(1, 2, 3);
  const CropRange range{0.9, 1, 3.0 / 4, 4.0 / 3};
  EXPECT_EQ(random_crop_box({10, 1000}, range, random), (PixelBox{0, 493, 10, 13}));
  EXPECT_EQ(random_crop_box({1000, 9}, range, random), (PixelBox{494, 0, 12, 9}));
  EXPECT_EQ(random_crop_box({1, 1}, range, random), (PixelBox{0, 0, 1, 1}));
}

TEST(CentreCrop, ResizesTheShorterSideAndTakesTheMiddle) {
  const Resizing wide = centre_crop({375, 500}, 224, 0.875);
  EXPECT_EQ(wide.size, (ImageSize{256, 341}));           // int(256 * 500 / 375) = int(341.3)
  EXPECT_EQ(wide.window, (PixelBox{16, 58, 224, 224}));  // 58.5 is rounded to the even number
  const Resizing tall = centre_crop({333, 111}, 32, 1);
  EXPECT_EQ(tall.size, (ImageSize{96, 32}));
  EXPECT_EQ(tall.window, (PixelBox{32, 0, 32, 32}));
}

TEST(Shift, MovesPixelsOverABlackBorder) {
  const Image image = numbered_image(6, 7);
  for (const auto& [down, right] : {std::pair(2, -3), std::pair(-4, 1), std::pair(0, 0)}) {
    const Image out = shifted(image, down, right);
    for (int64_t y = 0; y < 6; ++y)
      for (int64_t x = 0; x < 7; ++x) {
        const bool inside = y - down >= 0 && y - down < 6 && x - right >= 0 && x - right < 7;
        for (int64_t c = 0; c < 3; ++c)
          EXPECT_EQ(out.pixel(y, x)[c], inside ? image.pixel(y - down, x - right)[c] : 0);
      }
  }
}

}  // namespace
}  // namespace hydramix
