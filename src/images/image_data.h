// SPDX-License-Identifier: Apache-2.0
// The options of a run on images, and the two collections that they name.
#pragma once

#include "hydramix/options.h"
#include "images/drawn_images.h"

namespace hydramix {

struct ImageDataOptions {
  std::string path = "drawn";
  std::string validation;
  double held_out = 0;
  std::string broken = "skip";
  int64_t workers = 0;
  DrawnOptions drawn;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("path", self.path,
      "images: drawn (the built-in set), a folder with train/ and val/ that hold a folder per "
      "class, one folder of such folders, or CIFAR-10's binary or MNIST's idx files");
    v("validation", self.validation, "images for validation, where path does not hold them");
    v("held_out", self.held_out, Range{0.0, 0.9},
      "share of the training images that is used for validation instead, evenly spread");
    v("broken", self.broken, Choices{"skip", "fail"},
      "damaged images: skip (the next sound one takes its place in training, evaluation leaves it "
      "out), or fail");
    v("workers", self.workers, Range{0, 1024}, "threads that load images; 0: all cores");
    v("drawn", self.drawn, "the built-in set");
  }
};

struct ImageSplits {
  std::unique_ptr<ImageCollection> train, validation;
};

// UsageError if there are no images for validation. Error if they have classes of their own.
ImageSplits open_image_splits(const ImageDataOptions& options);

// Every k-th image on average: a share of `share` of the images, or all the others. Images of all
// classes are in both, although a folder's images are in the order of their classes.
std::unique_ptr<ImageCollection> image_share(std::shared_ptr<const ImageCollection> images,
                                             double share, bool others);

}  // namespace hydramix
