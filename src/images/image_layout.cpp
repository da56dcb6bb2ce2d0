// SPDX-License-Identifier: Apache-2.0
#include "images/image_layout.h"

#include <algorithm>

#include "base/list_folder.h"
#include "base/read_file.h"
#include "data/byte_stream.h"
#include "hydramix/error.h"
#include "images/image_folder.h"
#include "images/packed_images.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

// The whole contents, unpacked. CIFAR-10 and MNIST have at most 47 MB in a file.
std::string unpacked(const fs::path& path) {
  constexpr std::size_t kLimit = std::size_t{1} << 30;
  const auto stream = open_bytes(path);
  std::string contents;
  std::vector<char> buffer(1 << 20);
  while (const std::size_t count = stream->read(buffer.data(), buffer.size())) {
    HYDRAMIX_CHECK(contents.size() + count <= kLimit, path.string(), ": holds more than ", kLimit,
                   " bytes; a file of images has at most so many. Check that this is the right "
                   "file.");
    contents.append(buffer.data(), count);
  }
  return contents;
}

// Plain or packed, under one of the names; nothing if there is none.
std::vector<fs::path> file_named(const fs::path& folder, const std::vector<std::string>& names) {
  for (const auto& name : names)
    for (const char* packing : {"", ".gz", ".xz", ".zst"}) {
      const fs::path path = folder / (name + packing);
      if (fs::is_regular_file(path)) return {path};
    }
  return {};
}

// Where only one of the splits is found. False if there is none.
bool use_for_both(ImageLayout& layout) {
  if (layout.train.empty() && layout.validation.empty()) return false;
  layout.one_split = layout.train.empty() || layout.validation.empty();
  if (layout.train.empty()) layout.train = layout.validation;
  if (layout.validation.empty()) layout.validation = layout.train;
  return true;
}

std::vector<std::string> cifar10_classes(const fs::path& folder) {
  const fs::path path = folder / "batches.meta.txt";
  if (!fs::exists(path))
    return {"airplane", "automobile", "bird",  "cat",  "deer",
            "dog",      "frog",       "horse", "ship", "truck"};
  std::vector<std::string> names;
  std::istringstream lines(read_file(path, kConfigFile));
  for (std::string line; std::getline(lines, line);)
    if (!line.empty() && line != "\r") names.push_back(line.substr(0, line.find('\r')));
  HYDRAMIX_CHECK(names.size() == 10, path.string(), ": names ", names.size(),
                 " classes, expected 10, one per line.");
  return names;
}

bool find_cifar10(const fs::path& folder, ImageLayout& layout) {
  for (int i = 1; i <= 99; ++i) {
    const auto batch = file_named(folder, {concat("data_batch_", i, ".bin")});
    layout.train.insert(layout.train.end(), batch.begin(), batch.end());
  }
  layout.validation = file_named(folder, {"test_batch.bin"});
  if (!use_for_both(layout)) return false;
  layout.kind = ImageLayout::Kind::kCifar10;
  layout.classes = cifar10_classes(folder);
  return true;
}

std::vector<fs::path> idx_pair(const fs::path& folder, const std::string& split) {
  auto images = file_named(folder, {split + "-images-idx3-ubyte", split + "-images.idx3-ubyte"});
  const auto labels =
      file_named(folder, {split + "-labels-idx1-ubyte", split + "-labels.idx1-ubyte"});
  HYDRAMIX_CHECK(images.empty() == labels.empty(), folder.string(), ": has ", split,
                 images.empty() ? "-labels-idx1-ubyte but not the images to them, "
                                : "-images-idx3-ubyte but not the labels to them, ",
                 split, images.empty() ? "-images-idx3-ubyte" : "-labels-idx1-ubyte",
                 ". Put both into the folder.");
  images.insert(images.end(), labels.begin(), labels.end());
  return images;
}

bool find_idx(const fs::path& folder, ImageLayout& layout) {
  layout.train = idx_pair(folder, "train");
  layout.validation = idx_pair(folder, "t10k");
  layout.kind = ImageLayout::Kind::kIdx;
  return use_for_both(layout);
}

// The class folders of a training set.
std::vector<std::string> checked_classes(const fs::path& folder) {
  auto classes = class_folders(folder);
  HYDRAMIX_CHECK(!classes.empty(), folder.string(),
                 ": has no folders, expected one per class with JPEG or PNG files in it.");
  HYDRAMIX_CHECK(classes.size() > 1, folder.string(), ": has only one class, ", classes.front(),
                 ". A classifier needs two or more.");
  return classes;
}

bool holds_folders(const fs::path& folder) {
  const auto names = class_folders(folder);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    std::error_code problem;  // a folder that cannot be listed is named when it is opened
    const auto entries = list_folder(folder / name, problem);
    return std::any_of(entries.begin(), entries.end(), names_image);
  });
}

bool find_folders(const fs::path& folder, const std::vector<std::string>& classes,
                  ImageLayout& layout) {
  layout.kind = ImageLayout::Kind::kFolders;
  if (fs::is_directory(folder / "train")) {
    layout.train = {folder / "train"};
    for (const char* name : {"val", "validation", "test"})
      if (layout.validation.empty() && fs::is_directory(folder / name))
        layout.validation = {folder / name};
  } else if (holds_folders(folder)) {
    layout.train = {folder};
    use_for_both(layout);
  } else {
    return false;
  }
  layout.classes = classes.empty() ? checked_classes(layout.train.front()) : classes;
  return true;
}

std::unique_ptr<ImageCollection> open_cifar10(const std::vector<fs::path>& files,
                                              const ImageLayout& layout) {
  PackedImages images;
  for (const auto& file : files) append(images, parse_cifar10(unpacked(file), file.string()));
  return packed_collection(std::move(images), layout.path.string(), layout.classes);
}

// Digits, or the ten kinds of Fashion-MNIST. EMNIST has up to 62 classes. Both splits decide, so
// that they agree.
std::vector<std::string> idx_classes(const ImageLayout& layout) {
  constexpr std::size_t kHeader = 8;
  std::size_t count = 10;
  for (const auto* pair : {&layout.train, &layout.validation}) {
    const std::string labels = unpacked(pair->at(1));
    for (std::size_t i = kHeader; i < labels.size(); ++i)
      count = std::max(count, std::size_t{static_cast<unsigned char>(labels[i])} + 1);
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

std::unique_ptr<ImageCollection> open_idx(const std::vector<fs::path>& pair,
                                          const ImageLayout& layout) {
  auto images = parse_idx(unpacked(pair[0]), pair[0].string(), unpacked(pair[1]), pair[1].string());
  return packed_collection(std::move(images), pair[0].string(), idx_classes(layout));
}

// Where files of CIFAR-10 and MNIST may lie: in the folder, or in those that the official archive
// and torchvision make.
std::vector<fs::path> packed_folders(const fs::path& path) {
  return {path, path / "cifar-10-batches-bin", path / "MNIST" / "raw"};
}

}  // namespace

std::unique_ptr<ImageCollection> ImageLayout::open(ImageSplit split) const {
  if (kind == Kind::kDrawn) return drawn_images(drawn, split);
  const auto& files = split == ImageSplit::kTrain ? train : validation;
  HYDRAMIX_CHECK(!files.empty(), path.string(),
                 ": has train/ but none of val/, validation/ and test/. Add a folder for "
                 "validation, with a folder per class.");
  if (kind == Kind::kFolders) return image_folder(files.front(), classes);
  return kind == Kind::kCifar10 ? open_cifar10(files, *this) : open_idx(files, *this);
}

bool names_image_layout(const fs::path& path) {
  for (const auto& folder : packed_folders(path))
    for (const char* name :
         {"data_batch_1.bin", "test_batch.bin", "train-images-idx3-ubyte",
          "train-images.idx3-ubyte", "t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"})
      if (!file_named(folder, {name}).empty()) return true;
  if (!fs::is_directory(path)) return false;
  if (!fs::is_directory(path / "train")) return holds_folders(path);
  return !class_folders(path / "train").empty();
}

ImageLayout find_image_layout(const fs::path& path, const DrawnOptions& drawn,
                              const std::vector<std::string>& classes) {
  ImageLayout layout;
  layout.path = path;
  layout.drawn = drawn;
  if (path == "drawn") return layout;
  std::error_code problem;
  HYDRAMIX_CHECK(fs::exists(path, problem), path.string(),
                 ": does not exist, or may not be looked at. Name a folder of images, or 'drawn' "
                 "for the built-in set.");
  if (fs::is_regular_file(path)) {
    layout.kind = ImageLayout::Kind::kCifar10;
    layout.train = {path};
    use_for_both(layout);
    layout.classes = cifar10_classes(path.parent_path());
    return layout;
  }
  HYDRAMIX_CHECK(fs::is_directory(path), path.string(), ": is neither a folder nor a file.");
  for (const auto& folder : packed_folders(path))
    if (fs::is_directory(folder) && (find_cifar10(folder, layout) || find_idx(folder, layout)))
      return layout;
  if (find_folders(path, classes, layout)) return layout;
  throw Error(concat(path.string(),
                     ": holds no images that can be read. Expected train/ and val/ with a folder "
                     "of JPEG or PNG files per class, or the folders of the classes themselves, or "
                     "CIFAR-10's data_batch_1.bin and test_batch.bin, or MNIST's "
                     "train-images-idx3-ubyte and the files that belong to it."));
}

std::unique_ptr<ImageCollection> open_images(const fs::path& path, ImageSplit split) {
  return find_image_layout(path, {}).open(split);
}

}  // namespace hydramix
