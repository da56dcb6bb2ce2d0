// SPDX-License-Identifier: Apache-2.0
#include "images/rand_augment.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/formatted.h"
#include "images/distributions.h"
#include "images/image_operations.h"

namespace hydramix {
namespace {

constexpr std::array<const char*, kImageOperations> kOperationNames = {
    "autocontrast", "equalize",     "invert",  "rotate",      "posterize",
    "solarize",     "solarize add", "colour",  "contrast",    "brightness",
    "sharpness",    "shear x",      "shear y", "translate x", "translate y"};

enum class ArgumentKind { kNone, kDegrees, kBits, kThreshold, kAddend, kFactor, kSlope, kShare };

ArgumentKind argument_kind(ImageOperation operation) {
  switch (operation) {
    case ImageOperation::kAutoContrast:
    case ImageOperation::kEqualize:
    case ImageOperation::kInvert:
      return ArgumentKind::kNone;
    case ImageOperation::kRotate:
      return ArgumentKind::kDegrees;
    case ImageOperation::kPosterize:
      return ArgumentKind::kBits;
    case ImageOperation::kSolarize:
      return ArgumentKind::kThreshold;
    case ImageOperation::kSolarizeAdd:
      return ArgumentKind::kAddend;
    case ImageOperation::kColour:
    case ImageOperation::kContrast:
    case ImageOperation::kBrightness:
    case ImageOperation::kSharpness:
      return ArgumentKind::kFactor;
    case ImageOperation::kShearX:
    case ImageOperation::kShearY:
      return ArgumentKind::kSlope;
    case ImageOperation::kTranslateX:
    case ImageOperation::kTranslateY:
      return ArgumentKind::kShare;
  }
  return ArgumentKind::kNone;
}

}  // namespace

std::string operation_name(ImageOperation operation) {
  return kOperationNames[static_cast<std::size_t>(operation)];
}

bool has_direction(ImageOperation operation) {
  switch (argument_kind(operation)) {
    case ArgumentKind::kDegrees:
    case ArgumentKind::kFactor:
    case ArgumentKind::kSlope:
    case ArgumentKind::kShare:
      return true;
    default:
      return false;
  }
}

double operation_argument(ImageOperation operation, double strength, bool negative) {
  const double level = strength / 10, sign = negative ? -1 : 1;
  switch (argument_kind(operation)) {
    case ArgumentKind::kNone:
      return 0;
    case ArgumentKind::kDegrees:
      return sign * (level * 30);
    case ArgumentKind::kBits:
      return 4 - std::floor(level * 4);
    case ArgumentKind::kThreshold:
      return 256 - std::min(256.0, std::floor(level * 256));
    case ArgumentKind::kAddend:
      return std::min(128.0, std::floor(level * 110));
    case ArgumentKind::kFactor:
      return std::max(0.1, 1 + sign * (level * 0.9));
    case ArgumentKind::kSlope:
      return sign * (level * 0.3);
    case ArgumentKind::kShare:
      return sign * (level * 0.45);
  }
  return 0;
}

std::string argument_text(ImageOperation operation, double argument) {
  switch (argument_kind(operation)) {
    case ArgumentKind::kNone:
      return "";
    case ArgumentKind::kDegrees:
      return formatted("%.1f degrees", argument);
    case ArgumentKind::kBits:
      return formatted(argument == 1 ? "%.0f bit" : "%.0f bits", argument);
    case ArgumentKind::kThreshold:
      return formatted("from %.0f", argument);
    case ArgumentKind::kAddend:
      return formatted("+ %.0f", argument);
    case ArgumentKind::kFactor:
      return formatted("x %.2f", argument);
    case ArgumentKind::kSlope:
      return formatted("slope %.2f", argument);
    case ArgumentKind::kShare:
      return formatted("%.0f %% of the side", 100 * argument);
  }
  return "";
}

Image apply_operation(Image image, ImageOperation operation, double argument,
                      const OperationStyle& style) {
  const auto transformed = [&](const AffineMap& map) {
    return transform_affine(image, map, style.interpolation, style.fill);
  };
  const auto whole = static_cast<int64_t>(argument);
  switch (operation) {
    case ImageOperation::kAutoContrast:
      return autocontrast(std::move(image));
    case ImageOperation::kEqualize:
      return equalize(std::move(image));
    case ImageOperation::kInvert:
      return invert(std::move(image));
    case ImageOperation::kRotate:
      return transformed(rotation(argument, image.height, image.width));
    case ImageOperation::kPosterize:
      return posterize(std::move(image), whole);
    case ImageOperation::kSolarize:
      return solarize(std::move(image), whole);
    case ImageOperation::kSolarizeAdd:
      return solarize_add(std::move(image), whole);
    case ImageOperation::kColour:
      return adjust_colour(std::move(image), argument);
    case ImageOperation::kContrast:
      return adjust_contrast(std::move(image), argument);
    case ImageOperation::kBrightness:
      return adjust_brightness(std::move(image), argument);
    case ImageOperation::kSharpness:
      return adjust_sharpness(std::move(image), argument);
    case ImageOperation::kShearX:
      return transformed({.b = argument});
    case ImageOperation::kShearY:
      return transformed({.d = argument});
    case ImageOperation::kTranslateX:
      return transformed({.c = argument * static_cast<double>(image.width)});
    case ImageOperation::kTranslateY:
      return transformed({.f = argument * static_cast<double>(image.height)});
  }
  return image;
}

// Each layer draws the same numbers whether or not it is applied.
std::vector<DrawnOperation> draw_operations(const RandAugmentOptions& options, Random& random) {
  std::vector<DrawnOperation> drawn;
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const auto operation = static_cast<ImageOperation>(random.below(kImageOperations));
    const bool applied = random.uniform() < options.probability;
    const double strength =
        std::clamp(options.magnitude + options.deviation * normal(random), 0.0, 10.0);
    const bool negative = random.chance(1, 2);
    if (applied) drawn.push_back({operation, operation_argument(operation, strength, negative)});
  }
  return drawn;
}

}  // namespace hydramix
