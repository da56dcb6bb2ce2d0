// SPDX-License-Identifier: Apache-2.0
// The built-in set as files, in the layouts of real data.
#pragma once

#include <functional>

#include "images/drawn_images.h"

namespace hydramix {

struct DrawnFolders {
  std::filesystem::path out;
  DrawnOptions drawn;
  std::string format = "png";  // or "jpeg"
  bool overwrite = false;
};

// out/train/CLASS/NUMBER.png and out/val/CLASS/NUMBER.png. out/drawn.json, written first, says with
// which options; a run that was interrupted is continued by the same options, and others are an
// Error unless `overwrite`. Returns the number of images written; calls `progress` after each
// image, by one thread at a time, with the number of those that are finished.
int64_t write_drawn_folders(const DrawnFolders& folders,
                            const std::function<void(int64_t)>& progress);

// Images first to first + count - 1 in CIFAR-10's binary format; the side must be 32.
std::string drawn_cifar10(const DrawnOptions& options, ImageSplit split, int64_t first,
                          int64_t count);

}  // namespace hydramix
