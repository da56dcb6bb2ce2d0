// SPDX-License-Identifier: Apache-2.0
// Finds out what a path holds (see image_collection.h) by its files' names.
#pragma once

#include "images/drawn_images.h"

namespace hydramix {

struct ImageLayout {
  enum class Kind { kDrawn, kFolders, kCifar10, kIdx };

  Kind kind = Kind::kDrawn;
  std::filesystem::path path;
  // A folder of classes; files of CIFAR-10; an idx file of images and one of labels.
  std::vector<std::filesystem::path> train, validation;
  bool one_split = false;  // both are the same images
  DrawnOptions drawn;
  std::vector<std::string> classes;  // of folders, and the names of CIFAR-10's

  bool has_validation() const {
    return kind == Kind::kDrawn || (!validation.empty() && !one_split);
  }
  std::unique_ptr<ImageCollection> open(ImageSplit split) const;
};

// Does a folder hold images in one of these layouts? By the names of its files alone: what is wrong
// with them is found when they are opened.
bool names_image_layout(const std::filesystem::path& folder);

// `classes` are those of a training set in another place; empty: its own.
ImageLayout find_image_layout(const std::filesystem::path& path, const DrawnOptions& drawn,
                              const std::vector<std::string>& classes = {});

}  // namespace hydramix
