// SPDX-License-Identifier: Apache-2.0
// Pictures of one size, whole files of them in memory: CIFAR-10's binary version (Krizhevsky 2009,
// "Learning multiple layers of features from tiny images") and MNIST's idx files (LeCun, Cortes and
// Burges 1998, "The MNIST database of handwritten digits"). `path` names the file in errors.
#pragma once

#include "images/image_collection.h"

namespace hydramix {

struct PackedImages {
  ImageSize size;
  int64_t channels = 3;         // 1: grey
  std::string pixels;           // image by image, channel by channel, row by row
  std::vector<uint8_t> labels;  // one for each image

  int64_t bytes_of_one() const { return channels * size.height * size.width; }
};

// Records of 3073 bytes: the label, 0 to 9, then 32 x 32 pixels of red, green and blue.
PackedImages parse_cifar10(std::string bytes, const std::string& path);
// The same bytes again.
std::string cifar10_record(const Image& image, int64_t label);

// Two files that belong together; numbers are big-endian.
//   images: 2051, count, rows, columns, then count * rows * columns bytes
//   labels: 2049, count, then count bytes
PackedImages parse_idx(std::string images, const std::string& images_path,
                       const std::string& labels, const std::string& labels_path);

// Adds the images of `more`, of the same size.
void append(PackedImages& images, const PackedImages& more);

// `path` names the images in messages. Error if a label is not the index of a class.
std::unique_ptr<ImageCollection> packed_collection(PackedImages images, std::string path,
                                                   std::vector<std::string> classes);

}  // namespace hydramix
