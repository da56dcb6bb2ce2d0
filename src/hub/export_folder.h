// SPDX-License-Identifier: Apache-2.0
// A model folder that Hugging Face's transformers and sentence-transformers open as well:
//
//   config.json, model.safetensors, tokenizer.json   as save_model() writes them; the config also
//                                                    has the keys that transformers expects
//   tokenizer_config.json                            special tokens and the longest text
//   configuration_hydramix.py, modeling_hydramix.py  the model in PyTorch
//   modules.json, 1_Pooling/, sentence_bert_config.json   vectors as hydramix embed gives them
//   README.md                                        the model card
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "hydramix/bert.h"
#include "hydramix/model_folder.h"

namespace hydramix {

// A masked-language model, or a classifier.
struct ExportedModel {
  BertForMaskedLM masked_lm{nullptr};
  std::optional<ClassifierFolder> classifier;
  const Tokenizer* tokenizer = nullptr;
  std::string card;  // README.md

  const BertOptions& encoder() const;
};

// Throws an Error that names the option unless modeling_hydramix.py can compute this encoder.
// `origin` is the start of the message.
void check_exportable(const BertOptions& options, const std::string& origin);

// Writes the files. A folder whose export was interrupted has no README.md.
void export_folder(const std::filesystem::path& folder, const ExportedModel& model);

// The config of a model of ours with the keys that transformers expects.
nlohmann::ordered_json with_transformers_keys(nlohmann::ordered_json config,
                                              const ExportedModel& model);

// Tokens to which texts are cut: as `hydramix embed` cuts them.
int64_t text_length(const ExportedModel& model);

}  // namespace hydramix
