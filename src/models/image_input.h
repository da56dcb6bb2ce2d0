// SPDX-License-Identifier: Apache-2.0
// An image of any size as the input of a model.
#pragma once

#include "hydramix/model_folder.h"
#include "images/augment.h"

namespace hydramix {

// Resizes, cuts out and normalises an image as the model's folder says.
ImageTransform input_transform(const ImageModelFolder& folder);

// (1, 3, size, size)
torch::Tensor image_input(const ImageModelFolder& folder, const Image& image);

}  // namespace hydramix
