// SPDX-License-Identifier: Apache-2.0
// RandAugment (Cubuk et al. 2019, "RandAugment: Practical automated data augmentation with a
// reduced search space") in the variant of timm, "rand-m9-mstd0.5-inc1": an image passes `layers`
// operations drawn from 15 with replacement. Each is applied with a probability, at a strength
// drawn from a normal distribution around the magnitude and limited to 0..10. All operations become
// stronger with the magnitude. RandAugment as published has neither the deviation nor the
// probability.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "hydramix/options.h"
#include "images/affine.h"
#include "images/image.h"

namespace hydramix {

struct RandAugmentOptions {
  int64_t layers = 2;
  double magnitude = 9, deviation = 0.5, probability = 0.5;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("layers", self.layers, Range{0, 16}, "operations drawn for an image; 0: no RandAugment");
    v("magnitude", self.magnitude, Range{0, 10}, "mean strength of the operations");
    v("deviation", self.deviation, Range{0, 10}, "standard deviation of the strength");
    v("probability", self.probability, Range{0, 1}, "probability of applying a drawn operation");
  }
};

enum class ImageOperation {
  kAutoContrast,
  kEqualize,
  kInvert,
  kRotate,
  kPosterize,
  kSolarize,
  kSolarizeAdd,
  kColour,
  kContrast,
  kBrightness,
  kSharpness,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY
};
inline constexpr int64_t kImageOperations = 15;

std::string operation_name(ImageOperation operation);  // "shear x"

// The argument at a strength of 0..10: degrees, bits, a threshold, an addend, a factor, a slope, or
// a share of the image's side; 0 where the operation has none. `negative` turns the direction.
double operation_argument(ImageOperation operation, double strength, bool negative);
// Whether the operation has a direction, which `negative` reverses.
bool has_direction(ImageOperation operation);
// The argument as text: "27 degrees", "x 1.81".
std::string argument_text(ImageOperation operation, double argument);

// Geometric operations interpolate, and fill what comes from outside the image.
struct OperationStyle {
  Interpolation interpolation = Interpolation::kBicubic;
  ImageColour fill = {128, 128, 128};
};

Image apply_operation(Image image, ImageOperation operation, double argument,
                      const OperationStyle& style);

struct DrawnOperation {
  ImageOperation operation;
  double argument;
};

// Draws the operations to apply, in order: at most options.layers.
std::vector<DrawnOperation> draw_operations(const RandAugmentOptions& options, Random& random);

}  // namespace hydramix
