// SPDX-License-Identifier: Apache-2.0
#include "images/augment.h"

#include <algorithm>
#include <cmath>

#include "hydramix/error.h"
#include "images/image_operations.h"
#include "images/random_erasing.h"

namespace hydramix {
namespace {

void check_interval(const char* name, const std::vector<double>& ends) {
  HYDRAMIX_CHECK_USAGE(ends.size() == 2 && ends[0] > 0 && ends[0] <= ends[1], "augment: ", name,
                       " must be two numbers above 0, the smaller one first. Write ", name,
                       ": [0.5, 1], for example.");
}

ImageSize size_of(const Image& image) {
  HYDRAMIX_CHECK(image.height >= 1 && image.width >= 1, "augment: the image has no pixels.");
  return {image.height, image.width};
}

void check_room(std::span<const float> out, std::size_t values) {
  HYDRAMIX_CHECK(out.size() == values, "augment: room for ", out.size(), " numbers; expected ",
                 values, ".");
}

}  // namespace

void check_augment_options(const AugmentOptions& options) {
  validate(options);
  check_interval("scale", options.scale);
  check_interval("ratio", options.ratio);
  for (const auto* list : {&options.means, &options.deviations})
    HYDRAMIX_CHECK_USAGE(list->size() == 3,
                         "augment: means and deviations are three numbers each, of red, green and"
                         " blue; got ",
                         list->size(), ".");
  for (const double deviation : options.deviations)
    HYDRAMIX_CHECK_USAGE(deviation > 0, "augment: deviations must be above 0; got ", deviation,
                         ".");
  const AugmentOptions defaults;
  HYDRAMIX_CHECK_USAGE(options.crop == "resized" ||
                           (options.scale == defaults.scale && options.ratio == defaults.ratio),
                       "augment: scale and ratio belong to crop: resized, but crop is ",
                       options.crop, ". Leave them out, or choose that crop.");
  HYDRAMIX_CHECK_USAGE(options.crop == "padded" || options.padding == defaults.padding,
                       "augment: padding belongs to crop: padded, but crop is ", options.crop,
                       ". Leave it out, or choose that crop.");
  HYDRAMIX_CHECK_USAGE(options.crop != "padded" || options.padding < options.size,
                       "augment: a padding of ", options.padding, " pixels can shift an image of ",
                       options.size, " out of sight. Choose a smaller one.");
  HYDRAMIX_CHECK_USAGE(options.switch_probability == defaults.switch_probability ||
                           (options.mixup > 0 && options.cutmix > 0),
                       "augment: switch_probability chooses between Mixup and CutMix, but one of"
                       " them is off. Leave it out, or set both mixup and cutmix above 0.");
}

ImageTransform::ImageTransform(const AugmentOptions& options) : options_(options) {
  check_augment_options(options);
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = 0; i < 256; ++i)
      normalised_[c][i] = static_cast<float>((static_cast<double>(i) / 255 - options.means[c]) /
                                             options.deviations[c]);
}

Interpolation ImageTransform::interpolation(const ImageKey& key) const {
  if (options_.interpolation != "random")
    return options_.interpolation == "bilinear" ? Interpolation::kBilinear
                                                : Interpolation::kBicubic;
  return draws_of_image(key, AugmentDraw::kInterpolation).chance(1, 2) ? Interpolation::kBilinear
                                                                       : Interpolation::kBicubic;
}

OperationStyle ImageTransform::style(const ImageKey& key) const {
  OperationStyle style{interpolation(key)};
  for (std::size_t c = 0; c < 3; ++c)
    style.fill[c] =
        static_cast<uint8_t>(std::clamp(std::nearbyint(255 * options_.means[c]), 0.0, 255.0));
  return style;
}

Resizing ImageTransform::training_crop(const ImageSize& image, const ImageKey& key) const {
  Resizing crop =
      options_.crop == "padded" ? centre_crop(image, options_.size, 1) : evaluation_crop(image);
  if (options_.crop == "resized") {
    const CropRange range{options_.scale[0], options_.scale[1], options_.ratio[0],
                          options_.ratio[1]};
    Random random = draws_of_image(key, AugmentDraw::kCrop);
    const PixelBox box = random_crop_box(image, range, random);
    crop.source = {static_cast<double>(box.top), static_cast<double>(box.left),
                   static_cast<double>(box.height), static_cast<double>(box.width)};
    crop.size = {options_.size, options_.size};
    crop.window = {0, 0, options_.size, options_.size};
  }
  crop.interpolation = interpolation(key);
  return crop;
}

Resizing ImageTransform::evaluation_crop(const ImageSize& image) const {
  Resizing crop = centre_crop(image, options_.size, options_.crop_fraction);
  if (options_.interpolation == "bilinear") crop.interpolation = Interpolation::kBilinear;
  return crop;
}

Image ImageTransform::cropped(const Image& image, const Resizing& crop, const ImageKey& key) const {
  Image out = resize(image, crop);
  if (options_.crop == "padded") {
    Random random = draws_of_image(key, AugmentDraw::kCrop);
    const int64_t shifts = 2 * options_.padding + 1;
    const int64_t down = random.below(shifts) - options_.padding;
    out = shifted(out, down, random.below(shifts) - options_.padding);
  }
  return draws_of_image(key, AugmentDraw::kFlip).uniform() < options_.flip ? flip(std::move(out))
                                                                           : out;
}

Image ImageTransform::operated(Image image, const ImageKey& key) const {
  Random random = draws_of_image(key, AugmentDraw::kOperations);
  const OperationStyle how = style(key);
  for (const auto& [operation, argument] : draw_operations(options_.rand_augment, random))
    image = apply_operation(std::move(image), operation, argument, how);
  return image;
}

void ImageTransform::normalise(const Image& image, std::span<float> out) const {
  check_room(out, values());
  const auto pixels = static_cast<std::size_t>(size() * size());
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = 0; i < pixels; ++i)
      out[c * pixels + i] = normalised_[c][image.rgb[3 * i + c]];
}

Image ImageTransform::denormalise(std::span<const float> pixels) const {
  check_room(pixels, values());
  Image image(size(), size());
  const auto area = static_cast<std::size_t>(size() * size());
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = 0; i < area; ++i) {
      const double value = pixels[c * area + i] * options_.deviations[c] + options_.means[c];
      image.rgb[3 * i + c] =
          static_cast<uint8_t>(std::clamp(std::nearbyint(255 * value), 0.0, 255.0));
    }
  return image;
}

std::optional<PixelBox> ImageTransform::erase_box(std::span<float> pixels,
                                                  const ImageKey& key) const {
  check_room(pixels, values());
  Random random = draws_of_image(key, AugmentDraw::kErasing);
  if (random.uniform() >= options_.erasing) return std::nullopt;
  const auto box = erased_box(size(), size(), random);
  if (box) erase(pixels, size(), size(), *box, random);
  return box;
}

void ImageTransform::train(const Image& image, const ImageKey& key, std::span<float> out) const {
  const Resizing crop = training_crop(size_of(image), key);
  normalise(operated(cropped(image, crop, key), key), out);
  erase_box(out, key);
}

void ImageTransform::train(const ImageCollection& images, const ImageKey& key,
                           std::span<float> out) const {
  Resizing crop;
  const ImagePart part = images.load_part(key.number, [&](const ImageSize& full) {
    crop = training_crop(full, key);
    return WantedPart{crop.source, crop.size};
  });
  crop.source = part.box;
  normalise(operated(cropped(part.image, crop, key), key), out);
  erase_box(out, key);
}

void ImageTransform::evaluate(const Image& image, std::span<float> out) const {
  normalise(resize(image, evaluation_crop(size_of(image))), out);
}

void ImageTransform::evaluate(const ImageCollection& images, int64_t number,
                              std::span<float> out) const {
  Resizing crop;
  const ImagePart part = images.load_part(number, [&](const ImageSize& full) {
    crop = evaluation_crop(full);
    return WantedPart{crop.source, crop.size};
  });
  crop.source = part.box;
  normalise(resize(part.image, crop), out);
}

}  // namespace hydramix
