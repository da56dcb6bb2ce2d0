// SPDX-License-Identifier: Apache-2.0
// Classes as folders of JPEG and PNG files, the layout of ImageNet. Classes and files are in the
// order of their names, whatever the file system's. Files are read when an image is loaded.
#pragma once

#include "base/read_file.h"
#include "images/image_collection.h"

namespace hydramix {

inline constexpr FileKind kImageFile{"an image", int64_t{256} << 20};

// The folders in `folder`, without hidden ones, in the order of their names.
std::vector<std::string> class_folders(const std::filesystem::path& folder);

// Does a name end like that of a JPEG or PNG file?
bool names_image(const std::filesystem::path& path);

// `classes` are those of the training set, which labels are indices of; `folder` may lack some but
// must not have others. Error if a class has no images.
std::unique_ptr<ImageCollection> image_folder(const std::filesystem::path& folder,
                                              std::vector<std::string> classes);

}  // namespace hydramix
