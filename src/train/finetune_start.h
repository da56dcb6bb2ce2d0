// SPDX-License-Identifier: Apache-2.0
// The start of fine-tuning: an encoder with its tokenizer.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>

#include "hydramix/bert_encoder.h"
#include "hydramix/tokenizer.h"
#include "hydramix/torch_compat.h"

namespace hydramix {

// A fingerprint of the names, shapes and values of all weights.
std::string fingerprint_of(const torch::nn::Module& module);

struct FinetuneStart {
  BertOptions options;
  std::shared_ptr<torch::nn::Module> weights;
  Tokenizer tokenizer;

  // Fingerprints of all weights and of the tokenizer, so that a stopped run is not continued with
  // another model.
  nlohmann::ordered_json fingerprints() const;
};

// From a model, a classifier or a run. A run of pretraining that is not complete is refused unless
// `unfinished`.
FinetuneStart open_start(const std::filesystem::path& folder, bool unfinished);

}  // namespace hydramix
