// SPDX-License-Identifier: Apache-2.0
// The matrices that a trained model applies to a sentence, for the report.
#pragma once

#include <filesystem>
#include <vector>

#include "view/matrix_image.h"

namespace hydramix {

// For each layer that is shown (at most three: first, middle, last) the head that reads other
// places most, with the tokens along its axes. `run` is a run of pretraining. Empty for a mixer
// that is no matrix.
std::vector<MatrixPicture> learned_matrices(const std::filesystem::path& run);

}  // namespace hydramix
