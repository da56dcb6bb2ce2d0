// SPDX-License-Identifier: Apache-2.0
// The matrices that the layers of a model apply to one sequence.
#pragma once

#include <functional>
#include <vector>

#include "hydramix/bert_encoder.h"
#include "hydramix/image_model.h"

namespace hydramix {

// One tensor per layer, (branches H, L, L) float64: row i holds the weights that position i gives
// to the others. `model` has one encoder, with these options; `encode` runs it on the sequence
// and passes `observe` on.
std::vector<torch::Tensor> layer_matrices(
    const torch::nn::Module& model, const BertOptions& options,
    const std::function<void(const std::function<void(const torch::Tensor&)>& observe)>& encode);

// The same of an image model for one image, pixels (1, 3, size, size).
std::vector<torch::Tensor> layer_matrices(const ImageModel& model, const torch::Tensor& pixels);

}  // namespace hydramix
