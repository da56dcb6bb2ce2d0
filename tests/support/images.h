// SPDX-License-Identifier: Apache-2.0
// Batches of images without files.
#pragma once

#include "base/random.h"
#include "images/image_batch.h"

namespace hydramix::test {

// Images `first` to `first + count - 1` of `values` numbers in (-1, 1), each a function of its
// number, as is its class, number mod `classes`.
inline ImageBatch noise_images(int64_t first, int64_t count, int64_t values, int64_t classes) {
  ImageBatch batch;
  const auto all = static_cast<std::size_t>(count * values);
  batch.memory = std::make_shared<float[]>(all);
  batch.pixels = {batch.memory.get(), all};
  for (int64_t k = 0; k < count; ++k) {
    Random random(7, 0, static_cast<uint64_t>(first + k));
    for (float& pixel : batch.pixels.subspan(k * values, values))
      pixel = static_cast<float>(2 * random.uniform() - 1);
    batch.labels.push_back((first + k) % classes);
  }
  return batch;
}

}  // namespace hydramix::test
