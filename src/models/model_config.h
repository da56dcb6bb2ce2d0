// SPDX-License-Identifier: Apache-2.0
// A model's config as text, for conversion: weights and config come from any file, and a folder is
// written that load_model() or load_classifier() accepts.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "hydramix/bert_encoder.h"
#include "hydramix/tokenizer.h"

namespace hydramix {

// The config of a masked language model with these options.
std::string config_text(const BertOptions& options);

// The keys of the options of layers, of text and image models, that earlier versions did not have,
// with the values that they implied.
nlohmann::ordered_json later_layer_keys();

// The keys of BertOptions that earlier versions did not have, with the values that they implied.
nlohmann::ordered_json later_model_keys();

// The encoder's options in the config of a model of ours; nothing in other texts. Throws an Error
// that names `origin` for a config of ours that is not complete.
std::optional<BertOptions> encoder_options_in(const std::string& config, const std::string& origin);

// Writes a model folder with these weights and this config, its encoder's options replaced by
// `options`. Throws an Error, and writes nothing, unless the weights fit exactly.
struct FolderParts {
  std::map<std::string, torch::Tensor> weights;
  std::string config;
  BertOptions options;
  const Tokenizer* tokenizer = nullptr;
};
void save_parts(const std::filesystem::path& folder, const FolderParts& parts,
                const std::string& origin);

}  // namespace hydramix
