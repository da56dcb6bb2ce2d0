// SPDX-License-Identifier: Apache-2.0
#include "cli/augmentation_sheet.h"

#include <algorithm>
#include <cmath>

#include "base/formatted.h"
#include "images/mixing.h"

namespace hydramix {
namespace {

constexpr int64_t kTilesInRow = 8;

// Makes the sections. Four images of the collection are shown, a function of the seed.
class SheetMaker {
 public:
  SheetMaker(const ImageCollection& images, const AugmentOptions& options, uint64_t seed)
      : images_(images), options_(options), transform_(options), seed_(seed) {
    std::vector<int64_t> taken;
    Random random(seed, 0, 0);
    while (taken.size() < 4) {
      // Prefers images of different classes, if a few tries find them.
      int64_t number = 0;
      for (int attempt = 0; attempt < 50; ++attempt) {
        number = random.below(images.size());
        if (std::none_of(taken.begin(), taken.end(), [&](int64_t other) {
              return images.label(other) == images.label(number);
            }))
          break;
      }
      taken.push_back(number);
    }
    shown_ = taken;
  }

  SheetSection operations() const {
    const auto& how = options_.rand_augment;
    SheetSection section{"RandAugment",
                         formatted("each operation at magnitude %g; training draws %lld per image, "
                                   "applies each with probability %g, and varies the magnitude "
                                   "with a deviation of %g",
                                   how.magnitude, how.layers, how.probability, how.deviation),
                         {}};
    const Image original = evaluated(0);
    section.tiles.push_back({original, "original", class_name(0)});
    for (int64_t i = 0; i < kImageOperations; ++i) {
      const auto operation = static_cast<ImageOperation>(i);
      // Either direction occurs; operations take turns.
      const double argument = operation_argument(operation, how.magnitude, i % 2 == 1);
      section.tiles.push_back(
          {apply_operation(original, operation, argument, transform_.style(key(0, 0))),
           operation_name(operation), argument_text(operation, argument)});
    }
    return section;
  }

  SheetSection crops() const {
    SheetSection section{"Crop and flip", crop_note(), {}};
    const Image image = images_.load(shown_[1]);
    section.tiles.push_back({evaluated(1), "evaluation", class_name(1)});
    const auto area = static_cast<double>(image.height * image.width);
    for (int64_t epoch = 0; epoch + 1 < kTilesInRow; ++epoch) {
      const Resizing crop = transform_.training_crop({image.height, image.width}, key(1, epoch));
      const double share = crop.source.height * crop.source.width / area;
      section.tiles.push_back(
          {transform_.cropped(image, crop, key(1, epoch)), formatted("epoch %lld", epoch),
           options_.crop == "resized" ? formatted("%.0f %% of the area", 100 * share) : ""});
    }
    return section;
  }

  SheetSection pipelines() const {
    SheetSection section{"Training", "whole images as the network sees them, before mixing", {}};
    for (std::size_t which = 2; which < 4; ++which) {
      section.tiles.push_back({evaluated(which), "evaluation", class_name(which)});
      for (int64_t epoch = 0; epoch + 1 < kTilesInRow; ++epoch)
        section.tiles.push_back({transform_.denormalise(trained(which, epoch)),
                                 formatted("epoch %lld", epoch), drawn_names(which, epoch)});
    }
    return section;
  }

  SheetSection mixing() const {
    SheetSection section{"Mixup and CutMix",
                         "pairs of a batch; one draw for each step, with the share of both classes",
                         {}};
    std::vector<float> pair(transform_.values()), second = pair;
    transform_.normalise(evaluated(2), pair);
    transform_.normalise(evaluated(3), second);
    section.tiles.push_back({transform_.denormalise(pair), "first", class_name(2)});
    section.tiles.push_back({transform_.denormalise(second), "second", class_name(3)});
    pair.insert(pair.end(), second.begin(), second.end());
    for (int64_t step = 0; static_cast<int64_t>(section.tiles.size()) < kTilesInRow; ++step) {
      const BatchMix mix = draw_mix(options_, seed_, step);
      std::vector<float> mixed = pair;
      mix_pixels(mix, mixed, 2, options_.size);
      section.tiles.push_back(
          {transform_.denormalise(std::span(mixed).first(transform_.values())),
           formatted("step %lld: %s", step, mix.kind == MixKind::kMixup ? "Mixup" : "CutMix"),
           formatted("%.2f and %.2f", mix.lambda, 1 - mix.lambda)});
    }
    return section;
  }

  SheetSection erasing() const {
    SheetSection section{
        "Random erasing",
        formatted("noise in a box, with probability %g; here always", options_.erasing),
        {}};
    AugmentOptions always = options_;
    always.erasing = 1;
    const ImageTransform erasing_transform(always);
    for (int64_t epoch = 0; epoch < kTilesInRow; ++epoch) {
      std::vector<float> pixels(transform_.values());
      transform_.normalise(evaluated(0), pixels);
      const auto box = erasing_transform.erase_box(pixels, key(0, epoch));
      section.tiles.push_back(
          {transform_.denormalise(pixels), formatted("epoch %lld", epoch),
           box ? formatted("%lld x %lld pixels", box->height, box->width) : ""});
    }
    return section;
  }

 private:
  ImageKey key(std::size_t which, int64_t epoch) const { return {seed_, epoch, shown_[which]}; }

  std::string class_name(std::size_t which) const {
    return images_.classes().at(static_cast<std::size_t>(images_.label(shown_[which])));
  }

  Image evaluated(std::size_t which) const {
    std::vector<float> pixels(transform_.values());
    transform_.evaluate(images_, shown_[which], pixels);
    return transform_.denormalise(pixels);
  }

  std::vector<float> trained(std::size_t which, int64_t epoch) const {
    std::vector<float> pixels(transform_.values());
    transform_.train(images_, key(which, epoch), pixels);
    return pixels;
  }

  std::string drawn_names(std::size_t which, int64_t epoch) const {
    Random random = draws_of_image(key(which, epoch), AugmentDraw::kOperations);
    std::string names;
    for (const auto& drawn : draw_operations(options_.rand_augment, random))
      names += (names.empty() ? "" : ", ") + operation_name(drawn.operation);
    return names;
  }

  std::string crop_note() const {
    if (options_.crop == "resized")
      return formatted(
          "boxes of %g to %g of the area, width over height %.2f to %.2f, resized; "
          "flipped with probability %g",
          options_.scale[0], options_.scale[1], options_.ratio[0], options_.ratio[1],
          options_.flip);
    if (options_.crop == "padded")
      return formatted("shifted by up to %lld pixels; flipped with probability %g",
                       options_.padding, options_.flip);
    return formatted("the centre; flipped with probability %g", options_.flip);
  }

  const ImageCollection& images_;
  const AugmentOptions options_;
  const ImageTransform transform_;
  const uint64_t seed_;
  std::vector<int64_t> shown_;
};

}  // namespace

ContactSheet augmentation_sheet(const ImageCollection& images, const AugmentOptions& options,
                                uint64_t seed) {
  const SheetMaker maker(images, options, seed);
  ContactSheet sheet;
  sheet.title = "Augmentations";
  sheet.note = formatted("%lld x %lld pixels, %s interpolation, seed %lld", options.size,
                         options.size, options.interpolation, seed);
  if (options.rand_augment.layers > 0) sheet.sections.push_back(maker.operations());
  sheet.sections.push_back(maker.crops());
  sheet.sections.push_back(maker.pipelines());
  if (options.mixup > 0 || options.cutmix > 0) sheet.sections.push_back(maker.mixing());
  if (options.erasing > 0) sheet.sections.push_back(maker.erasing());
  return sheet;
}

}  // namespace hydramix
