// SPDX-License-Identifier: Apache-2.0
// BERT as Hugging Face's transformers saves it, as a model of ours: the encoder with attention in
// plain blocks, an MLP after each, learned positions and BERT's norms. Per layer,
//
//   attention.self.{value, query, key}   layer.mixer.in_proj, one under the other
//   attention.output.dense, .LayerNorm   layer.mixer.out_proj, layer.norm
//   intermediate.dense                   mlp.wi
//   output.dense, .LayerNorm             mlp.wo, mlp_norm
//
// Embeddings, pooler, classifier and the masked-LM head have the same names in both.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hydramix/bert.h"
#include "hydramix/model_folder.h"

namespace hydramix {

struct ImportedBert {
  BertForMaskedLM masked_lm{nullptr};               // of BertForMaskedLM, BertForPreTraining
  std::optional<ClassifierFolder> classifier = {};  // of BertForSequenceClassification, BertModel
  Tokenizer tokenizer;
  std::string architecture;
  std::vector<std::string> notes;  // sentences about what was left out
};

// Reads config.json, the weights and the tokenizer of a folder. Every failure is an Error that
// names the file; models that are not BERT are refused by their name.
ImportedBert import_bert(const std::filesystem::path& folder);

}  // namespace hydramix
