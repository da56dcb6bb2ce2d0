// SPDX-License-Identifier: Apache-2.0
// The random numbers of augmentation: functions of seed, epoch and number for an image, of seed and
// step for a batch. Each purpose has its own stream, so switching one augmentation off leaves the
// others unchanged.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace hydramix {

struct ImageKey {
  uint64_t seed = 0;
  int64_t epoch = 0, number = 0;  // number of the image in its collection
};

enum class AugmentDraw : uint64_t {
  kCrop = 1,
  kFlip,
  kOperations,
  kErasing,
  kMixing,
  kInterpolation
};

// Purposes start at 2^48: other parts of training have small numbers for their streams.
inline uint64_t augment_stream(AugmentDraw purpose, int64_t epoch) {
  return (static_cast<uint64_t>(purpose) << 48) + static_cast<uint64_t>(epoch);
}
inline Random draws_of_image(const ImageKey& key, AugmentDraw purpose) {
  return Random(key.seed, augment_stream(purpose, key.epoch), static_cast<uint64_t>(key.number));
}
inline Random draws_of_step(uint64_t seed, int64_t step) {
  return Random(seed, augment_stream(AugmentDraw::kMixing, 0), static_cast<uint64_t>(step));
}

}  // namespace hydramix
