// SPDX-License-Identifier: Apache-2.0
// The built-in set: ten classes of shapes and textures, drawn on request. A shape
// (disc, ring, square, triangle, cross) has one colour; a texture (stripes, checks, dots, target,
// fade) fills a disc, a square or a triangle. Position, size, angle, colours, the ground, specks on
// it and noise are random, and object and ground have the same distribution of colours. The mean of
// every class is therefore the same grey, and no linear function of the pixels tells them apart.
//
// An image is a function of (seed, split, number); its class is number mod 10.
#pragma once

#include "hydramix/options.h"
#include "images/image_collection.h"

namespace hydramix {

struct DrawnOptions {
  int64_t train = 50000, validation = 2000;
  int64_t side = 32;
  int64_t seed = 1;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("train", self.train, Range{10, 1LL << 31}, "images for training");
    v("validation", self.validation, Range{10, 1LL << 31}, "images for validation");
    v("side", self.side, Range{16, 4096}, "height and width of an image");
    v("seed", self.seed, Range{0, 1LL << 53}, "every seed draws other images");
  }
};

const std::vector<std::string>& drawn_classes();

// Which image to draw.
struct DrawnKey {
  uint64_t seed = 1;
  ImageSplit split = ImageSplit::kTrain;
  int64_t number = 0;
};
Image draw_image(const DrawnKey& key, const ImageSize& size);

std::unique_ptr<ImageCollection> drawn_images(const DrawnOptions& options, ImageSplit split);

}  // namespace hydramix
