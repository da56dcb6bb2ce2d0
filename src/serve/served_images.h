// SPDX-License-Identifier: Apache-2.0
// A model of images that the server has opened, and what it computes for a batch of requests.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hydramix/text_model.h"
#include "serve/work.h"

namespace hydramix::serve {

// `folder` is that of an image model or of its run. Of the options the device counts, and whether
// the model is opened for serving.
std::shared_ptr<ModelFacts> open_served_images(const std::filesystem::path& folder,
                                               const TextModelOptions& options);

// One result per image, end to end. `model` comes from open_served_images().
std::vector<WorkResult> image_results(const ModelFacts& model, std::span<const Work* const> works);

}  // namespace hydramix::serve
