// SPDX-License-Identifier: Apache-2.0
#include "images/mixing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

AugmentOptions mixing_options(double mixup, double cutmix, int64_t size = 32) {
  AugmentOptions options;
  options.mixup = mixup;
  options.cutmix = cutmix;
  options.size = size;
  return options;
}

TEST(Mixing, IsAFunctionOfSeedAndStep) {
  const auto options = mixing_options(0.8, 1);
  const BatchMix first = draw_mix(options, 3, 17), again = draw_mix(options, 3, 17);
  EXPECT_EQ(first.kind, again.kind);
  EXPECT_EQ(first.lambda, again.lambda);
  EXPECT_NE(first.lambda, draw_mix(options, 3, 18).lambda);
  EXPECT_NE(first.lambda, draw_mix(options, 4, 17).lambda);
}

TEST(Mixing, SwitchesBetweenMixupAndCutmix) {
  int64_t cut = 0;
  for (int64_t step = 0; step < 2000; ++step)
    cut += draw_mix(mixing_options(0.8, 1), 1, step).kind == MixKind::kCutmix;
  EXPECT_NEAR(static_cast<double>(cut), 1000, 5 * std::sqrt(500.0));
  for (int64_t step = 0; step < 50; ++step) {
    EXPECT_EQ(draw_mix(mixing_options(0.8, 0), 1, step).kind, MixKind::kMixup);
    EXPECT_EQ(draw_mix(mixing_options(0, 1), 1, step).kind, MixKind::kCutmix);
    const BatchMix none = draw_mix(mixing_options(0, 0), 1, step);
    EXPECT_EQ(none.kind, MixKind::kNone);
    EXPECT_EQ(none.lambda, 1);
  }
}

// Var Beta(a, a) = 1 / (4 (2 a + 1)).
TEST(Mixing, LambdaOfMixupIsBeta) {
  double sum = 0, squares = 0;
  constexpr int kSteps = 4000;
  for (int64_t step = 0; step < kSteps; ++step) {
    const double lambda = draw_mix(mixing_options(0.8, 0), 5, step).lambda;
    sum += lambda;
    squares += lambda * lambda;
  }
  const double mean = sum / kSteps, variance = 1 / (4 * 2.6);
  EXPECT_NEAR(mean, 0.5, 5 * std::sqrt(variance / kSteps));
  EXPECT_NEAR(squares / kSteps - mean * mean, variance, 0.006);
}

// Lambda is what remains of the image. With lambda uniform the box before it is cut off has the
// mean area 1/2; the border takes some of it.
TEST(Mixing, LambdaOfCutmixIsTheAreaOutsideTheBox) {
  double boxes = 0;
  for (int64_t step = 0; step < 2000; ++step) {
    const BatchMix mix = draw_mix(mixing_options(0, 1, 64), 5, step);
    ASSERT_GE(mix.box.top, 0);
    ASSERT_GE(mix.box.left, 0);
    ASSERT_LE(mix.box.top + mix.box.height, 64);
    ASSERT_LE(mix.box.left + mix.box.width, 64);
    const auto area = static_cast<double>(mix.box.height * mix.box.width);
    EXPECT_DOUBLE_EQ(mix.lambda, 1 - area / (64 * 64));
    boxes += area / (64 * 64);
  }
  // E r^2 (1 - r/4)^2 over the side r = sqrt(u): 1/2 - 1/5 + 1/48. Sides are rounded down to even
  // numbers of pixels, which takes about 1/64 off each.
  EXPECT_NEAR(boxes / 2000, 0.5 - 0.2 + 1.0 / 48, 0.03);
}

std::vector<float> counted(std::size_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

TEST(Mixing, MixupBlendsNeighbours) {
  const auto before = counted(4 * 3 * 2 * 2);
  auto pixels = before;
  mix_pixels({MixKind::kMixup, 0.75, {}}, pixels, 4, 2);
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t k = 0; k < 12; ++k)
      EXPECT_FLOAT_EQ(pixels[12 * i + k],
                      0.75f * before[12 * i + k] + 0.25f * before[12 * (i ^ 1) + k]);
}

TEST(Mixing, CutmixTakesTheBoxOfTheNeighbour) {
  const auto before = counted(4 * 3 * 5 * 5);
  auto pixels = before;
  const PixelBox box{1, 2, 3, 2};
  mix_pixels({MixKind::kCutmix, 1 - 6.0 / 25, box}, pixels, 4, 5);
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t y = 0; y < 5; ++y)
        for (std::size_t x = 0; x < 5; ++x) {
          const bool inside = y >= 1 && y < 4 && x >= 2 && x < 4;
          const auto place = [&](std::size_t image) { return ((image * 3 + c) * 5 + y) * 5 + x; };
          EXPECT_EQ(pixels[place(i)], before[place(inside ? i ^ 1 : i)]);
        }
}

// A batch in parts, as ranks and micro-batches hold it, gives the same images.
TEST(Mixing, DoesNotDependOnThePartsOfABatch) {
  const BatchMix mix{MixKind::kMixup, 0.3, {}};
  auto whole = counted(6 * 3 * 2 * 2), parts = whole;
  mix_pixels(mix, whole, 6, 2);
  mix_pixels(mix, std::span(parts).first(4 * 12), 4, 2);
  mix_pixels(mix, std::span(parts).last(2 * 12), 2, 2);
  EXPECT_EQ(whole, parts);
}

TEST(Mixing, TargetsAreSmoothedAndMixed) {
  const std::vector<int64_t> labels = {2, 0, 1, 1};
  const auto targets = mixed_targets({MixKind::kMixup, 0.75, {}}, labels, 4, 0.1);
  ASSERT_EQ(targets.size(), 16u);
  // Smoothing gives 0.925 to the label and 0.025 to each other class.
  const std::vector<double> expected = {0.25 * 0.925 + 0.75 * 0.025,
                                        0.025,
                                        0.75 * 0.925 + 0.25 * 0.025,
                                        0.025,  // 2 with 0
                                        0.75 * 0.925 + 0.25 * 0.025,
                                        0.025,
                                        0.25 * 0.925 + 0.75 * 0.025,
                                        0.025,  // 0 with 2
                                        0.025,
                                        0.925,
                                        0.025,
                                        0.025,
                                        0.025,
                                        0.925,
                                        0.025,
                                        0.025};
  for (std::size_t i = 0; i < 16; ++i) EXPECT_NEAR(targets[i], expected[i], 1e-6) << i;

  const auto plain = mixed_targets({}, std::vector<int64_t>{1}, 2, 0);
  EXPECT_EQ(plain, (std::vector<float>{0, 1}));
}

TEST(Mixing, RefusesOddBatchesAndUnknownLabels) {
  std::vector<float> pixels(3 * 12);
  const BatchMix mix{MixKind::kMixup, 0.5, {}};
  EXPECT_THROW_WITH(mix_pixels(mix, pixels, 3, 2), Error, "3 images cannot be mixed in pairs");
  const std::vector<int64_t> labels = {0, 1, 0}, unknown = {0, 7};
  EXPECT_THROW_WITH(mixed_targets(mix, labels, 2, 0), Error, "Choose an even batch size");
  EXPECT_THROW_WITH(mixed_targets(mix, unknown, 2, 0), Error, "the label 7 is not one of 0..1");
  EXPECT_EQ(mixed_targets({}, labels, 2, 0).size(), 6u);
}

}  // namespace
}  // namespace hydramix
