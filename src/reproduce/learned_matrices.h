// SPDX-License-Identifier: Apache-2.0
// The matrices that a trained model applies to a sentence or an image, for the report.
#pragma once

#include <filesystem>
#include <vector>

#include "images/image.h"
#include "view/matrix_image.h"

namespace hydramix {

// For each layer that is shown (at most three: first, middle, last) the head that reads other
// positions most. `model` is the folder of a model. Empty for a mixer that is no matrix.
std::vector<MatrixPicture> learned_matrices(const std::filesystem::path& model);
std::vector<MatrixPicture> learned_matrices(const std::filesystem::path& model, const Image& image);

}  // namespace hydramix
