// SPDX-License-Identifier: Apache-2.0
// The whole transform: its steps in order, what it depends on, its options.
#include "images/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "hydramix/error.h"
#include "images/image_operations.h"
#include "images/random_erasing.h"
#include "support/expect.h"

namespace hydramix {
namespace {

Image speckled_image(int64_t height, int64_t width) {
  Image image(height, width);
  Random random(11, 12, 13);
  for (auto& value : image.rgb) value = static_cast<uint8_t>(random.below(256));
  return image;
}

// A collection of one image, whose parts come at half the resolution, as JPEG may.
class HalvedImage : public ImageCollection {
 public:
  explicit HalvedImage(Image image) : image_(std::move(image)) {}
  int64_t size() const override { return 1; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t) const override { return 0; }
  std::string name(int64_t) const override { return "halved"; }
  Image load(int64_t) const override { return image_; }
  std::string fingerprint() const override { return ""; }
  ImagePart load_part(int64_t, const ChoosePart& choose) const override {
    const auto wanted = choose({2 * image_.height, 2 * image_.width});
    return {image_,
            {wanted.box.top / 2, wanted.box.left / 2, wanted.box.height / 2, wanted.box.width / 2}};
  }

 private:
  Image image_;
  std::vector<std::string> classes_ = {"one"};
};

AugmentOptions plain_augmentation(int64_t size) {
  AugmentOptions options;
  options.size = size;
  options.crop = "centre";
  options.crop_fraction = 1;
  options.flip = options.erasing = 0;
  options.rand_augment.layers = 0;
  return options;
}

std::vector<float> trained(const ImageTransform& transform, const Image& image,
                           const ImageKey& key) {
  std::vector<float> out(transform.values());
  transform.train(image, key, out);
  return out;
}

TEST(Augment, NormalisesChannelByChannel) {
  const Image image = speckled_image(6, 6);
  AugmentOptions options = plain_augmentation(6);
  const ImageTransform transform(options);
  std::vector<float> out(transform.values());
  transform.evaluate(image, out);
  const double means[] = {0.485, 0.456, 0.406}, deviations[] = {0.229, 0.224, 0.225};
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = 0; i < 36; ++i)
      EXPECT_NEAR(out[36 * c + i], (image.rgb[3 * i + c] / 255.0 - means[c]) / deviations[c], 1e-6);
  EXPECT_EQ(out, trained(transform, image, {}));  // nothing random is left on
  EXPECT_EQ(transform.denormalise(out).rgb, image.rgb);
}

// The pipeline by hand, from the parts that other tests check.
TEST(Augment, AppliesTheStepsInTimmsOrder) {
  const Image image = speckled_image(60, 80);
  AugmentOptions options;
  options.size = 32;
  options.erasing = 1;
  options.rand_augment.probability = 1;
  const ImageTransform transform(options);
  for (int64_t number = 0; number < 20; ++number) {
    const ImageKey key{5, 2, number};
    Random crop_draws = draws_of_image(key, AugmentDraw::kCrop);
    const PixelBox box = random_crop_box({60, 80}, {}, crop_draws);
    Image expected =
        resize(image, {{static_cast<double>(box.top), static_cast<double>(box.left),
                        static_cast<double>(box.height), static_cast<double>(box.width)},
                       {32, 32},
                       {0, 0, 32, 32}});
    if (draws_of_image(key, AugmentDraw::kFlip).uniform() < 0.5) expected = flip(expected);
    Random operations = draws_of_image(key, AugmentDraw::kOperations);
    for (const auto& drawn : draw_operations(options.rand_augment, operations))
      expected = apply_operation(expected, drawn.operation, drawn.argument,
                                 {Interpolation::kBicubic, {124, 116, 104}});
    std::vector<float> pixels(transform.values());
    transform.normalise(expected, pixels);
    Random erasing = draws_of_image(key, AugmentDraw::kErasing);
    erasing.uniform();
    if (const auto erased = erased_box(32, 32, erasing)) erase(pixels, 32, 32, *erased, erasing);
    EXPECT_EQ(trained(transform, image, key), pixels) << number;
  }
}

TEST(Augment, IsAFunctionOfSeedEpochAndNumber) {
  const Image image = speckled_image(40, 40);
  AugmentOptions options;
  options.size = 24;
  const ImageTransform transform(options);
  const auto first = trained(transform, image, {1, 2, 3});
  EXPECT_EQ(trained(ImageTransform(options), image, {1, 2, 3}), first);
  EXPECT_NE(trained(transform, image, {2, 2, 3}), first);
  EXPECT_NE(trained(transform, image, {1, 3, 3}), first);
  EXPECT_NE(trained(transform, image, {1, 2, 4}), first);
}

// Erasing off: outside its box nothing changes, so crop, flip and operations are the same.
TEST(Augment, SwitchingOneAugmentationOffKeepsTheOthers) {
  const Image image = speckled_image(40, 40);
  AugmentOptions options;
  options.size = 24;
  options.erasing = 1;
  const ImageTransform with(options);
  options.erasing = 0;
  const ImageTransform without(options);
  for (int64_t number = 0; number < 10; ++number) {
    const auto a = trained(with, image, {1, 0, number}),
               b = trained(without, image, {1, 0, number});
    std::size_t equal = 0;
    for (std::size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i];
    EXPECT_GT(equal, a.size() / 2);
    EXPECT_LT(equal, a.size());
  }
}

TEST(Augment, FlipsAndErasesAsOftenAsAsked) {
  Image image(8, 8);
  for (int64_t y = 0; y < 8; ++y) std::fill_n(image.pixel(y, 0), 3, uint8_t{255});
  AugmentOptions options = plain_augmentation(8);
  options.flip = 0.3;
  options.erasing = 0.25;
  options.means = {0, 0, 0};
  options.deviations = {1, 1, 1};
  const ImageTransform transform(options);
  int64_t flipped = 0, erased = 0;
  constexpr int64_t kImages = 4000;
  for (int64_t number = 0; number < kImages; ++number) {
    const auto out = trained(transform, image, {9, 0, number});
    flipped += out[0] != 1 && std::count(out.begin(), out.end(), 1.0f) > 12;
    erased += std::any_of(out.begin(), out.end(), [](float v) { return v != 0 && v != 1; });
  }
  EXPECT_NEAR(static_cast<double>(erased) / kImages, 0.25, 5 * std::sqrt(0.25 * 0.75 / kImages));
  // Of the images that keep more than half of the white column; the top left corner is rarely
  // erased.
  EXPECT_NEAR(static_cast<double>(flipped) / kImages, 0.3, 0.04);
}

TEST(Augment, PaddedCropsShiftByAtMostThePadding) {
  Image dot(32, 32);
  std::fill_n(dot.pixel(16, 16), 3, uint8_t{255});
  AugmentOptions options = plain_augmentation(32);
  options.crop = "padded";
  const ImageTransform transform(options);
  std::vector<int64_t> rows(9), columns(9);
  constexpr int64_t kImages = 1800;
  for (int64_t number = 0; number < kImages; ++number) {
    const ImageKey key{3, 0, number};
    const Image out = transform.cropped(dot, transform.training_crop({32, 32}, key), key);
    const auto place = (std::max_element(out.rgb.begin(), out.rgb.end()) - out.rgb.begin()) / 3;
    ++rows.at(static_cast<std::size_t>(place / 32 - 12));
    ++columns.at(static_cast<std::size_t>(place % 32 - 12));
  }
  for (const auto& counts : {rows, columns})
    for (const int64_t count : counts)
      EXPECT_NEAR(static_cast<double>(count), 200, 5 * std::sqrt(200.0));
}

// A picture that was decoded at half its size: the same part of it is seen.
TEST(Augment, TakesTheSamePartOfAReducedImage) {
  const Image half = speckled_image(64, 64);
  AugmentOptions options;
  options.size = 16;
  options.interpolation = "bilinear";
  options.rand_augment.layers = 0;
  options.erasing = 0;
  const ImageTransform transform(options);
  const HalvedImage images(half);
  // Each pixel twice in each direction.
  Image full(128, 128);
  for (int64_t y = 0; y < 128; ++y)
    for (int64_t x = 0; x < 128; ++x) std::copy_n(half.pixel(y / 2, x / 2), 3, full.pixel(y, x));
  for (int64_t number = 0; number < 5; ++number) {
    const ImageKey key{1, 0, number};
    std::vector<float> reduced(transform.values());
    transform.train(images, key, reduced);
    const auto complete = trained(transform, full, key);
    double distance = 0, other = 0;
    const auto unrelated = trained(transform, full, {1, 1, number});
    for (std::size_t i = 0; i < reduced.size(); ++i) {
      distance += std::abs(reduced[i] - complete[i]);
      other += std::abs(reduced[i] - unrelated[i]);
    }
    EXPECT_LT(distance, 0.3 * other);
  }
  std::vector<float> a(transform.values()), b(transform.values());
  transform.evaluate(images, 0, a);
  transform.evaluate(full, b);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 0.5);
}

TEST(RandomErasing, BoxesFollowTheirDistribution) {
  double area = 0, log_ratio = 0;
  constexpr int kCount = 4000;
  for (uint64_t i = 0; i < kCount; ++i) {
    Random random(1, 2, i);
    const auto box = erased_box(1000, 1000, random);
    ASSERT_TRUE(box.has_value());
    ASSERT_TRUE(box->top >= 0 && box->top + box->height <= 1000 && box->left >= 0 &&
                box->left + box->width <= 1000);
    const double h = static_cast<double>(box->height), w = static_cast<double>(box->width);
    EXPECT_GT(h * w, 0.0195e6);
    EXPECT_LT(h * w, 0.334e6);
    EXPECT_GT(h / w, 0.295);
    EXPECT_LT(h / w, 3.39);
    area += h * w / 1e6;
    log_ratio += std::log(h / w);
  }
  // Boxes longer than the image are drawn again: those of large area and extreme ratio, about 1 in
  // 100. That lowers the mean a little.
  EXPECT_NEAR(area / kCount, (0.02 + 1.0 / 3) / 2, 0.01);
  EXPECT_NEAR(log_ratio / kCount, 0, 5 * 2 * std::log(1 / 0.3) / std::sqrt(12.0 * kCount));
}

TEST(RandomErasing, FillsTheBoxWithNoiseAndNothingElse) {
  std::vector<float> pixels(3 * 40 * 50, 100.0f);
  Random random(1, 2, 3);
  erase(pixels, 40, 50, {4, 5, 30, 40}, random);
  double sum = 0, squares = 0;
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t y = 0; y < 40; ++y)
      for (std::size_t x = 0; x < 50; ++x) {
        const double value = pixels[(c * 40 + y) * 50 + x];
        const bool inside = y >= 4 && y < 34 && x >= 5 && x < 45;
        if (!inside) {
          ASSERT_EQ(value, 100);
          continue;
        }
        ASSERT_LT(std::abs(value), 7);
        sum += value;
        squares += value * value;
      }
  EXPECT_NEAR(sum / 3600, 0, 5 / std::sqrt(3600.0));
  EXPECT_NEAR(squares / 3600, 1, 5 * std::sqrt(2 / 3600.0));
}

TEST(RandomErasing, FindsNoBoxInATinyImage) {
  Random random(1, 2, 3);
  EXPECT_FALSE(erased_box(1, 1, random).has_value());
}

TEST(AugmentOptions, TheDefaultsAreThePapersRecipe) {
  const AugmentOptions options;
  EXPECT_NO_THROW(check_augment_options(options));
  EXPECT_EQ(options.size, 224);
  EXPECT_EQ(options.rand_augment.magnitude, 9);
  EXPECT_EQ(options.rand_augment.deviation, 0.5);
  EXPECT_EQ(options.rand_augment.layers, 2);
  EXPECT_EQ(options.mixup, 0.8);
  EXPECT_EQ(options.cutmix, 1.0);
  EXPECT_EQ(options.erasing, 0.25);
  EXPECT_EQ(options.smoothing, 0.1);
}

TEST(AugmentOptions, ReadFromYaml) {
  AugmentOptions options;
  parse_yaml(options, "size: 32\ncrop: padded\nrand_augment: {layers: 0}\nmeans: [0.5, 0.5, 0.5]\n",
             "test.yaml");
  EXPECT_EQ(options.size, 32);
  EXPECT_EQ(options.rand_augment.layers, 0);
  EXPECT_EQ(options.means[1], 0.5);
  EXPECT_NO_THROW(ImageTransform{options});
}

TEST(AugmentOptions, RefuseContradictions) {
  const auto refused = [](auto change, const std::string& text) {
    AugmentOptions options;
    change(options);
    EXPECT_THROW_WITH(ImageTransform{options}, UsageError, text);
  };
  using O = AugmentOptions;
  refused([](O& o) { o.scale = {1, 0.08}; }, "the smaller one first");
  refused([](O& o) { o.scale = {0.5}; }, "scale must be two numbers");
  refused([](O& o) { o.ratio = {0, 1}; }, "ratio must be two numbers above 0");
  refused([](O& o) { o.means = {0.5}; }, "three numbers each");
  refused([](O& o) { o.deviations = {0.2, 0, 0.2}; }, "deviations must be above 0");
  refused([](O& o) { o.flip = 1.5; }, "flip");
  refused([](O& o) { o.crop = "random"; }, "crop");
  refused(
      [](O& o) {
        o.crop = "padded";
        o.scale = {0.5, 1};
      },
      "belong to crop: resized, but crop is padded");
  refused([](O& o) { o.padding = 2; }, "padding belongs to crop: padded");
  refused(
      [](O& o) {
        o.crop = "padded";
        o.size = 4;
      },
      "out of sight");
  refused(
      [](O& o) {
        o.mixup = 0;
        o.switch_probability = 0.7;
      },
      "one of them is off");
}

TEST(Augment, RefusesEmptyImagesAndTooLittleRoom) {
  const ImageTransform transform(plain_augmentation(4));
  std::vector<float> out(transform.values()), small(3);
  EXPECT_THROW_WITH(transform.train(Image(), {}, out), Error, "has no pixels");
  EXPECT_THROW_WITH(transform.evaluate(speckled_image(5, 5), small), Error,
                    "room for 3 numbers; expected 48");
}

}  // namespace
}  // namespace hydramix
