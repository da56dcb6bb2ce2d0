// SPDX-License-Identifier: Apache-2.0
#include "images/drawn_images.h"

#include <cmath>

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using DrawnFeatures = std::vector<double>;

DrawnFeatures features_of(const Image& image) { return {image.rgb.begin(), image.rgb.end()}; }

TEST(DrawnImages, AreAFunctionOfSeedSplitAndNumber) {
  DrawnOptions options;
  const auto images = drawn_images(options, ImageSplit::kTrain);
  EXPECT_EQ(images->size(), 50000);
  EXPECT_EQ(drawn_images(options, ImageSplit::kValidation)->size(), 2000);
  EXPECT_EQ(images->classes().size(), 10u);
  EXPECT_EQ(images->load(17).rgb, images->load(17).rgb);
  EXPECT_EQ(images->load(17).rgb, draw_image({1, ImageSplit::kTrain, 17}, {32, 32}).rgb);
  EXPECT_NE(images->load(17).rgb, images->load(27).rgb);
  EXPECT_NE(images->load(17).rgb, drawn_images(options, ImageSplit::kValidation)->load(17).rgb);
  const std::string fingerprint = images->fingerprint();
  options.seed = 2;
  EXPECT_NE(images->load(17).rgb, drawn_images(options, ImageSplit::kTrain)->load(17).rgb);
  EXPECT_NE(fingerprint, drawn_images(options, ImageSplit::kTrain)->fingerprint());
  EXPECT_EQ(images->label(17), 7);
  EXPECT_EQ(images->classes()[7], "dots");
}

TEST(DrawnImages, HaveAnySize) {
  for (const ImageSize size : {ImageSize{16, 16}, ImageSize{28, 28}, ImageSize{50, 97}}) {
    const Image image = draw_image({3, ImageSplit::kTrain, 4}, size);
    EXPECT_EQ(image.height, size.height);
    EXPECT_EQ(image.width, size.width);
  }
  DrawnOptions options;
  options.side = 8;
  EXPECT_THROW_WITH(drawn_images(options, ImageSplit::kTrain), UsageError, "side");
}

// The class whose mean image is nearest is a linear classifier. It must fail, or a model would need
// to learn nothing.
TEST(DrawnImages, CannotBeToldApartByTheirMeans) {
  const int64_t count = 2000, tests = 500;
  const std::size_t values = 3 * 32 * 32;
  std::vector<DrawnFeatures> means(10, DrawnFeatures(values));
  for (int64_t i = 0; i < count; ++i) {
    const auto features = features_of(draw_image({1, ImageSplit::kTrain, i}, {32, 32}));
    for (std::size_t k = 0; k < values; ++k)
      means[static_cast<std::size_t>(i % 10)][k] += features[k] * 10 / static_cast<double>(count);
  }
  int64_t right = 0;
  for (int64_t i = 0; i < tests; ++i) {
    const auto features = features_of(draw_image({1, ImageSplit::kValidation, i}, {32, 32}));
    std::vector<double> distances(10);
    for (std::size_t c = 0; c < 10; ++c)
      for (std::size_t k = 0; k < values; ++k)
        distances[c] += (features[k] - means[c][k]) * (features[k] - means[c][k]);
    const auto nearest = std::min_element(distances.begin(), distances.end()) - distances.begin();
    if (nearest == i % 10) ++right;
  }
  EXPECT_LT(static_cast<double>(right) / static_cast<double>(tests), 0.2);  // chance: 0.1
}

// Noise rarely makes a step of 60; edges do.
TEST(DrawnImages, TexturesHaveMoreEdgesThanShapes) {
  std::vector<double> edges(10);
  for (int64_t i = 0; i < 400; ++i) {
    const Image image = draw_image({1, ImageSplit::kTrain, i}, {64, 64});
    for (int64_t y = 0; y < 64; ++y)
      for (int64_t x = 2; x < 64; ++x)
        if (std::abs(image.pixel(y, x)[1] - image.pixel(y, x - 2)[1]) > 60)
          ++edges[static_cast<std::size_t>(i % 10)];
  }
  for (const std::size_t texture : {5, 6, 7, 8}) EXPECT_GT(edges[texture], 1.5 * edges[0]);
}

}  // namespace
}  // namespace hydramix
