// SPDX-License-Identifier: Apache-2.0
// Labelled images: a folder of classes, files of CIFAR-10 or MNIST, or the drawn set. Images are
// numbered from 0. Everything is a function of the number, so any thread may ask for any image.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "images/image_part.h"

namespace hydramix {

enum class ImageSplit : uint8_t { kTrain, kValidation };

class ImageCollection {
 public:
  virtual ~ImageCollection() = default;

  virtual int64_t size() const = 0;
  virtual const std::vector<std::string>& classes() const = 0;
  virtual int64_t label(int64_t i) const = 0;     // an index into classes()
  virtual std::string name(int64_t i) const = 0;  // for messages: the path of its file
  // Error, naming the file, if the image is damaged. Thread-safe.
  virtual Image load(int64_t i) const = 0;
  // Decodes no more than the part needs, where the format allows.
  virtual ImagePart load_part(int64_t i, const ChoosePart& choose) const;
  // Changes when images, labels or their order change; a resumed run compares it.
  virtual std::string fingerprint() const = 0;
};

// The format is detected from the contents of `path`:
//   drawn                             the built-in set
//   a folder with train/ and val/     classes as folders of JPEG and PNG files, ImageNet's layout;
//                                     test/ or validation/ in place of val/
//   a folder of folders               the same for one split, which is then the only one
//   data_batch_*.bin, test_batch.bin  CIFAR-10's binary version
//   train-images-idx3-ubyte, ...      MNIST; also .gz
// Error if it holds none of them.
std::unique_ptr<ImageCollection> open_images(const std::filesystem::path& path, ImageSplit split);

}  // namespace hydramix
