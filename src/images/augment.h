// SPDX-License-Identifier: Apache-2.0
// From a decoded image to the numbers that a network reads, by the recipe of DeiT (Touvron et al.
// 2020, "Training data-efficient image transformers"), which the paper follows:
//
//   training    random crop, flip, RandAugment, normalisation, random erasing;
//               then the batch is mixed (images/mixing)
//   evaluation  resize, centre crop, normalisation
//
// Everything random is a function of (seed, epoch, number of the image).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hydramix/options.h"
#include "images/augment_draws.h"
#include "images/crop.h"
#include "images/image.h"
#include "images/image_collection.h"
#include "images/rand_augment.h"

namespace hydramix {

struct AugmentOptions {
  int64_t size = 224;
  std::string crop = "resized", interpolation = "bicubic";
  std::vector<double> scale = {0.08, 1}, ratio = {3.0 / 4, 4.0 / 3};
  int64_t padding = 4;
  double flip = 0.5;
  RandAugmentOptions rand_augment;
  double erasing = 0.25;
  double mixup = 0.8, cutmix = 1, switch_probability = 0.5;
  double smoothing = 0.1;
  double crop_fraction = 0.875;
  std::vector<double> means = {0.485, 0.456, 0.406}, deviations = {0.229, 0.224, 0.225};

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("size", self.size, Range{1, 4096}, "height and width of the images, in pixels");
    v("crop", self.crop, Choices{"resized", "padded", "centre"},
      "training: resized: a random box, resized; padded: a random shift over a black border, for "
      "small images; centre: as in evaluation");
    v("scale", self.scale, Range{0, 1}, "crop resized: smallest and largest share of the area");
    v("ratio", self.ratio, Range{0, 100}, "crop resized: smallest and largest width over height");
    v("padding", self.padding, Range{1, 1024}, "crop padded: pixels of the border");
    v("interpolation", self.interpolation, Choices{"bilinear", "bicubic", "random"},
      "filter for resizing, rotation, shear and translation; random: either one for each image of "
      "training, bicubic in evaluation");
    v("flip", self.flip, Range{0, 1}, "probability of exchanging left and right");
    v("rand_augment", self.rand_augment, "random operations on the colours and the geometry");
    v("erasing", self.erasing, Range{0, 1}, "probability of replacing a random box by noise");
    v("mixup", self.mixup, Range{0, 100}, "parameter of the beta distribution; 0: no Mixup");
    v("cutmix", self.cutmix, Range{0, 100}, "parameter of the beta distribution; 0: no CutMix");
    v("switch_probability", self.switch_probability, Range{0, 1},
      "probability of CutMix instead of Mixup, per batch");
    v("smoothing", self.smoothing, Range{0, 1},
      "share of the target that is spread evenly over all classes");
    v("crop_fraction", self.crop_fraction, Range{0.01, 1},
      "evaluation: size of the crop over the shorter side of the resized image");
    v("means", self.means, "means subtracted from red, green and blue (0 to 1)");
    v("deviations", self.deviations,
      "standard deviations by which red, green and blue are divided");
  }
};

// UsageError for options that contradict each other or that fields() cannot check.
void check_augment_options(const AugmentOptions& options);

class ImageTransform {
 public:
  // Checks the options.
  explicit ImageTransform(const AugmentOptions& options);

  int64_t size() const { return options_.size; }
  std::size_t values() const { return static_cast<std::size_t>(3 * size() * size()); }

  // Each writes (3, size, size) to `out`, which has values() numbers. Of a collection, image
  // key.number or `number` is decoded no finer than needed.
  void train(const Image& image, const ImageKey& key, std::span<float> out) const;
  void train(const ImageCollection& images, const ImageKey& key, std::span<float> out) const;
  void evaluate(const Image& image, std::span<float> out) const;
  void evaluate(const ImageCollection& images, int64_t number, std::span<float> out) const;

  // The steps of train() and evaluate(), which also make pictures of them.
  Resizing training_crop(const ImageSize& image, const ImageKey& key) const;
  Resizing evaluation_crop(const ImageSize& image) const;
  Image cropped(const Image& image, const Resizing& crop,
                const ImageKey& key) const;                // and flipped
  Image operated(Image image, const ImageKey& key) const;  // RandAugment
  void normalise(const Image& image, std::span<float> out) const;
  // Returns the box, if any was erased.
  std::optional<PixelBox> erase_box(std::span<float> pixels, const ImageKey& key) const;
  Image denormalise(std::span<const float> pixels) const;  // cut off to bytes
  OperationStyle style(const ImageKey& key) const;

 private:
  Interpolation interpolation(const ImageKey& key) const;

  AugmentOptions options_;
  std::array<std::array<float, 256>, 3> normalised_;  // of every byte, by channel
};

}  // namespace hydramix
