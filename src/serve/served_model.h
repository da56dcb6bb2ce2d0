// SPDX-License-Identifier: Apache-2.0
// A model of texts that the server has opened, and what it computes for a batch of requests.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hydramix/text_model.h"
#include "serve/work.h"

namespace hydramix::serve {

struct ServedModel : ModelFacts {
  explicit ServedModel(std::shared_ptr<const TextModel> opened_model);
  std::shared_ptr<const TextModel> model;
};

// `folder` is that of a model, of a classifier, of an image model or of a run. Throws an Error that
// names the file.
std::shared_ptr<ModelFacts> open_served_model(const std::string& name,
                                              const std::filesystem::path& folder,
                                              const TextModelOptions& options);

// One result per text or image of each work. The works have one model, which open_served_model()
// opened, and one kind.
std::vector<std::vector<WorkResult>> compute_works(std::span<const Work* const> works);

// Computes a text or image of every kind of work that the model has, so that the first request does
// not wait for work that is done once.
void warm_up(const std::shared_ptr<const ModelFacts>& model);

}  // namespace hydramix::serve
