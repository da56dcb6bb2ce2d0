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

// pixels (B, 3, size, size) of such inputs -> (B, classes), before softmax, float64 on the CPU.
torch::Tensor image_outputs(const ImageModelFolder& folder, const torch::Tensor& pixels,
                            const torch::Device& device);

}  // namespace hydramix
