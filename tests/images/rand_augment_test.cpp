// SPDX-License-Identifier: Apache-2.0
// The strengths and frequencies of RandAugment. The operations themselves: images/pillow_test.
#include "images/rand_augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace hydramix {
namespace {

using Op = ImageOperation;

// timm's level functions of "inc1", by hand for magnitude 9: 0.9 of each range.
TEST(RandAugment, ArgumentsAtMagnitudeNine) {
  EXPECT_DOUBLE_EQ(operation_argument(Op::kRotate, 9, false), 27);
  EXPECT_DOUBLE_EQ(operation_argument(Op::kRotate, 9, true), -27);
  EXPECT_EQ(operation_argument(Op::kPosterize, 9, false), 1);     // 4 - int(3.6)
  EXPECT_EQ(operation_argument(Op::kSolarize, 9, false), 26);     // 256 - int(230.4)
  EXPECT_EQ(operation_argument(Op::kSolarizeAdd, 9, false), 99);  // int(99.0)
  for (const Op operation : {Op::kColour, Op::kContrast, Op::kBrightness, Op::kSharpness}) {
    EXPECT_DOUBLE_EQ(operation_argument(operation, 9, false), 1.81);
    EXPECT_NEAR(operation_argument(operation, 9, true), 0.19, 1e-15);
  }
  EXPECT_DOUBLE_EQ(operation_argument(Op::kShearX, 9, true), -0.27);
  EXPECT_DOUBLE_EQ(operation_argument(Op::kShearY, 9, false), 0.27);
  EXPECT_DOUBLE_EQ(operation_argument(Op::kTranslateX, 9, false), 0.405);
  EXPECT_DOUBLE_EQ(operation_argument(Op::kTranslateY, 9, true), -0.405);
}

TEST(RandAugment, TheEndsOfTheRanges) {
  EXPECT_EQ(operation_argument(Op::kPosterize, 0, false), 4);
  EXPECT_EQ(operation_argument(Op::kPosterize, 10, false), 0);
  EXPECT_EQ(operation_argument(Op::kSolarize, 0, false), 256);
  EXPECT_EQ(operation_argument(Op::kSolarize, 10, false), 0);
  EXPECT_EQ(operation_argument(Op::kSolarizeAdd, 10, false), 110);
  EXPECT_DOUBLE_EQ(operation_argument(Op::kColour, 0, true), 1);
  EXPECT_DOUBLE_EQ(operation_argument(Op::kColour, 10, true), 0.1);
  EXPECT_DOUBLE_EQ(operation_argument(Op::kColour, 10, false), 1.9);
  EXPECT_DOUBLE_EQ(operation_argument(Op::kTranslateX, 10, false), 0.45);
}

TEST(RandAugment, EveryOperationHasANameAndAText) {
  std::map<std::string, int> names;
  for (int64_t i = 0; i < kImageOperations; ++i) ++names[operation_name(static_cast<Op>(i))];
  EXPECT_EQ(names.size(), 15u);
  EXPECT_EQ(argument_text(Op::kRotate, 27), "27.0 degrees");
  EXPECT_EQ(argument_text(Op::kPosterize, 1), "1 bit");
  EXPECT_EQ(argument_text(Op::kColour, 1.81), "x 1.81");
  EXPECT_EQ(argument_text(Op::kInvert, 0), "");
}

// 30000 images of 2 layers. A share p of n has the deviation sqrt(p (1 - p) / n); five of them are
// allowed.
TEST(RandAugment, OperationsAndDirectionsAreEquallyFrequent) {
  const RandAugmentOptions options;
  constexpr int64_t kImages = 30000;
  std::map<Op, int64_t> counts;
  int64_t total = 0, negative = 0, rotations = 0;
  for (int64_t i = 0; i < kImages; ++i) {
    Random random(1, 2, static_cast<uint64_t>(i));
    const auto drawn = draw_operations(options, random);
    ASSERT_LE(drawn.size(), 2u);
    for (const auto& [operation, argument] : drawn) {
      ++total;
      ++counts[operation];
      if (operation == Op::kRotate) {
        ++rotations;
        negative += argument < 0;
      }
    }
  }
  const auto near_share = [](int64_t part, int64_t whole, double share) {
    const auto n = static_cast<double>(whole);
    EXPECT_NEAR(static_cast<double>(part) / n, share, 5 * std::sqrt(share * (1 - share) / n));
  };
  near_share(total, 2 * kImages, 0.5);
  EXPECT_EQ(counts.size(), 15u);
  for (const auto& [operation, count] : counts) near_share(count, total, 1.0 / 15);
  near_share(negative, rotations, 0.5);
}

// Of a rotation the argument shows the strength: 3 degrees per unit. A normal strength of mean 9
// and deviation 0.5 is above 10, and limited to it, with probability 0.0228.
TEST(RandAugment, StrengthsAreNormalAndLimited) {
  RandAugmentOptions options;
  options.layers = 16;
  options.probability = 1;
  double sum = 0, squares = 0;
  int64_t count = 0, limited = 0;
  for (uint64_t i = 0; i < 12000; ++i) {
    Random random(3, 4, i);
    for (const auto& [operation, argument] : draw_operations(options, random)) {
      if (operation != Op::kRotate) continue;
      const double strength = std::abs(argument) / 3;
      EXPECT_LE(strength, 10.0);
      limited += strength == 10.0;
      ++count;
      sum += strength;
      squares += strength * strength;
    }
  }
  ASSERT_GT(count, 10000);
  const auto n = static_cast<double>(count);
  const double mean = sum / n, deviation = std::sqrt(squares / n - mean * mean);
  // E min(z, 2) = -0.00849 for a standard normal z: the limit takes 0.0042 off the mean.
  EXPECT_NEAR(mean, 9 - 0.5 * 0.00849, 5 * 0.5 / std::sqrt(n));
  EXPECT_NEAR(deviation, 0.49, 0.015);
  EXPECT_NEAR(static_cast<double>(limited) / n, 0.0228, 0.007);
}

TEST(RandAugment, WithoutDeviationAllStrengthsAreEqual) {
  RandAugmentOptions options;
  options.deviation = 0;
  options.probability = 1;
  for (uint64_t i = 0; i < 500; ++i) {
    Random random(3, 4, i);
    const auto drawn = draw_operations(options, random);
    EXPECT_EQ(drawn.size(), 2u);
    for (const auto& [operation, argument] : drawn)
      EXPECT_TRUE(argument == operation_argument(operation, 9, false) ||
                  argument == operation_argument(operation, 9, true));
  }
  options.layers = 0;
  Random random(3, 4, 0);
  EXPECT_TRUE(draw_operations(options, random).empty());
}

}  // namespace
}  // namespace hydramix
