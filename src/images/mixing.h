// SPDX-License-Identifier: Apache-2.0
// Mixing of the images of a batch in pairs, and the targets of the mixed images.
//
//   Mixup  (Zhang et al. 2017, "mixup: Beyond empirical risk minimization"):
//          x = lambda x_i + (1 - lambda) x_j,  lambda ~ Beta(mixup, mixup)
//   CutMix (Yun et al. 2019, "CutMix: Regularization strategy to train strong classifiers"):
//          x = x_i with a box of x_j, whose area is a share 1 - lambda, lambda ~ Beta(cutmix,
//          cutmix); where the image cuts the box off, lambda is corrected to the box that remains
//   target = lambda s_i + (1 - lambda) s_j
//   s_i = (1 - smoothing) onehot(y_i) + smoothing / classes
//
// As in timm's mode "batch", one draw decides for the whole batch. Image i is mixed with image i
// xor 1 of the batch, its neighbour; timm takes the one from the other end. The order of images is
// random, so the pairs are too, and neighbours stay together when ranks and micro-batches share a
// batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "images/augment.h"
#include "images/resize.h"

namespace hydramix {

enum class MixKind { kNone, kMixup, kCutmix };

struct BatchMix {
  MixKind kind = MixKind::kNone;
  double lambda = 1;  // share of the image itself
  PixelBox box = {};  // CutMix: what comes from the other image; may be empty
};

// The mixing of the batch of a step, a function of its arguments.
BatchMix draw_mix(const AugmentOptions& options, uint64_t seed, int64_t step);

// Mixes `count` images of (3, size, size) in place. Throws for an odd count unless nothing is
// mixed.
void mix_pixels(const BatchMix& mix, std::span<float> pixels, int64_t count, int64_t size);

// (labels, classes): the probabilities to be learned. Throws for a label that is not in
// 0..classes-1, and for an odd number of labels unless nothing is mixed.
std::vector<float> mixed_targets(const BatchMix& mix, std::span<const int64_t> labels,
                                 int64_t classes, double smoothing);

}  // namespace hydramix
