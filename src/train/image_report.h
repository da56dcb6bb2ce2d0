// SPDX-License-Identifier: Apache-2.0
// The last evaluation of an image classifier, class by class, as tables and as a picture.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/image_training.h"

namespace hydramix {

// One row per class: images, share recognised (of the average of the weights too, if it was
// evaluated), and the class it is most often confused with. Tab-separated, with a header.
std::string class_table(const std::vector<std::string>& classes, const ImageCounts& counts,
                        const ImageCounts& average);

// Images of each class (rows) by the answer (columns). Tab-separated, with a header.
std::string confusion_table(const std::vector<std::string>& classes, const ImageCounts& counts);

// Writes classes.tsv, confusion.tsv and confusion.svg into the folder.
void write_image_report(const std::filesystem::path& folder,
                        const std::vector<std::string>& classes, const ImageCounts& counts,
                        const ImageCounts& average);

}  // namespace hydramix
