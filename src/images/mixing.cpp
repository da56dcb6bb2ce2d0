// SPDX-License-Identifier: Apache-2.0
#include "images/mixing.h"

#include <algorithm>
#include <cmath>

#include "hydramix/error.h"
#include "images/augment_draws.h"
#include "images/distributions.h"

namespace hydramix {
namespace {

// A square box around a random pixel, cut off by the image.
PixelBox cutmix_box(double lambda, int64_t size, Random& random) {
  const auto side = static_cast<int64_t>(static_cast<double>(size) * std::sqrt(1 - lambda));
  const auto range = [&] {
    const int64_t centre = random.below(size);
    return std::pair(std::clamp<int64_t>(centre - side / 2, 0, size),
                     std::clamp<int64_t>(centre + side / 2, 0, size));
  };
  const auto [top, bottom] = range();
  const auto [left, right] = range();
  return {top, left, bottom - top, right - left};
}

void check_pairs(const BatchMix& mix, int64_t count) {
  HYDRAMIX_CHECK(
      mix.kind == MixKind::kNone || count % 2 == 0, "mixing: ", count,
      " images cannot be mixed in pairs. Choose an even batch size, also for each rank and"
      " micro-batch, or set mixup and cutmix to 0.");
}

}  // namespace

BatchMix draw_mix(const AugmentOptions& options, uint64_t seed, int64_t step) {
  BatchMix mix;
  if (options.mixup == 0 && options.cutmix == 0) return mix;
  Random random = draws_of_step(seed, step);
  const bool cut = random.uniform() < options.switch_probability;
  mix.kind = options.mixup == 0    ? MixKind::kCutmix
             : options.cutmix == 0 ? MixKind::kMixup
             : cut                 ? MixKind::kCutmix
                                   : MixKind::kMixup;
  mix.lambda =
      symmetric_beta(random, mix.kind == MixKind::kCutmix ? options.cutmix : options.mixup);
  if (mix.kind == MixKind::kCutmix) {
    mix.box = cutmix_box(mix.lambda, options.size, random);
    mix.lambda = 1 - static_cast<double>(mix.box.height * mix.box.width) /
                         static_cast<double>(options.size * options.size);
  }
  return mix;
}

void mix_pixels(const BatchMix& mix, std::span<float> pixels, int64_t count, int64_t size) {
  check_pairs(mix, count);
  const int64_t image = 3 * size * size;
  const auto share = static_cast<float>(mix.lambda), rest = static_cast<float>(1 - mix.lambda);
  for (int64_t i = 0; i + 1 < count; i += 2) {
    float* a = pixels.data() + i * image;
    float* b = a + image;
    if (mix.kind == MixKind::kMixup)
      for (int64_t k = 0; k < image; ++k) {
        const float first = a[k], second = b[k];
        a[k] = share * first + rest * second;
        b[k] = share * second + rest * first;
      }
    if (mix.kind == MixKind::kCutmix)
      for (int64_t c = 0; c < 3; ++c)
        for (int64_t y = mix.box.top; y < mix.box.top + mix.box.height; ++y) {
          const int64_t row = (c * size + y) * size + mix.box.left;
          std::swap_ranges(a + row, a + row + mix.box.width, b + row);
        }
  }
}

std::vector<float> mixed_targets(const BatchMix& mix, std::span<const int64_t> labels,
                                 int64_t classes, double smoothing) {
  const auto count = static_cast<int64_t>(labels.size());
  check_pairs(mix, count);
  const double off = smoothing / static_cast<double>(classes);
  std::vector<float> targets(static_cast<std::size_t>(count * classes), static_cast<float>(off));
  const auto add = [&](int64_t row, int64_t label, double share) {
    HYDRAMIX_CHECK(label >= 0 && label < classes, "mixing: the label ", label, " is not one of 0..",
                   classes - 1, ".");
    targets[static_cast<std::size_t>(row * classes + label)] +=
        static_cast<float>((1 - smoothing) * share);
  };
  for (int64_t i = 0; i < count; ++i) {
    add(i, labels[static_cast<std::size_t>(i)], mix.lambda);
    if (mix.kind != MixKind::kNone) add(i, labels[static_cast<std::size_t>(i ^ 1)], 1 - mix.lambda);
  }
  return targets;
}

}  // namespace hydramix
