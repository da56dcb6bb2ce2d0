// SPDX-License-Identifier: Apache-2.0
#include "hub/export_folder.h"

#include <algorithm>
#include <array>

#include "base/atomic_file.h"
#include "base/json_reader.h"
#include "base/spelling.h"
#include "hub/python_files.h"
#include "hydramix/error.h"
#include "hydramix/text_embedder.h"
#include "models/folder_files.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The mixers of modeling_hydramix.py.
constexpr std::array kExportedMixers{
    "add",   "attention", "attention_causal",  "attention_dd", "concat",
    "hydra", "mult",      "quasiseparable_dd", "semiseparable"};

void write_json(const fs::path& path, const Json& json) { write_file(path, json.dump(2) + "\n"); }

std::string kind_of(const ExportedModel& model) {
  return model.classifier ? model.classifier->kind : "";
}

std::string architecture(const ExportedModel& model) {
  const auto kind = kind_of(model);
  return kind.empty()       ? "HydraMixForMaskedLM"
         : kind == "tokens" ? "HydraMixForTokenClassification"
         : kind == "pairs"  ? "HydraMixModel"
                            : "HydraMixForSequenceClassification";
}

// A name for each output, as transformers requires.
void add_labels(Json& config, const ClassifierFolder& classifier) {
  auto names = classifier.labels;
  if (names.empty() && classifier.kind == "score") names = {"SCORE"};
  if (names.empty()) return;
  auto &by_id = config["id2label"], &by_name = config["label2id"];
  for (std::size_t i = 0; i < names.size(); ++i) {
    by_id[std::to_string(i)] = names[i];
    by_name[names[i]] = i;
  }
  if (classifier.kind == "tokens") return;
  config["problem_type"] = classifier.kind == "score"    ? "regression"
                           : classifier.kind == "labels" ? "multi_label_classification"
                                                         : "single_label_classification";
}

Json tokenizer_config(const ExportedModel& model) {
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"model_max_length", text_length(model)},
          {"model_input_names", {"input_ids", "token_type_ids", "attention_mask"}},
          {"padding_side", "right"},
          {"clean_up_tokenization_spaces", true},
          {"unk_token", "[UNK]"},
          {"sep_token", "[SEP]"},
          {"pad_token", "[PAD]"},
          {"cls_token", "[CLS]"},
          {"mask_token", "[MASK]"}};
}

// A classifier's own pooling, else the mean, as TextEmbedder.
bool pools_cls(const ExportedModel& model) {
  return model.classifier && model.classifier->model->options().pooling == "cls";
}

void write_sentence_transformers(const fs::path& folder, const ExportedModel& model) {
  const auto module = [](int number, const char* path, const char* type) {
    return Json{{"idx", number},
                {"name", std::to_string(number)},
                {"path", path},
                {"type", concat("sentence_transformers.models.", type)}};
  };
  std::error_code failure;
  fs::create_directories(folder / "1_Pooling", failure);
  HYDRAMIX_CHECK(!failure, (folder / "1_Pooling").string(),
                 ": cannot make the folder: ", failure.message(),
                 ". Choose a place that can be written.");
  write_json(folder / "1_Pooling" / "config.json",
             {{"word_embedding_dimension", model.encoder().block.d_model},
              {"pooling_mode_cls_token", pools_cls(model)},
              {"pooling_mode_mean_tokens", !pools_cls(model)},
              {"pooling_mode_max_tokens", false},
              {"pooling_mode_mean_sqrt_len_tokens", false}});
  write_json(folder / "sentence_bert_config.json",
             {{"max_seq_length", text_length(model)}, {"do_lower_case", false}});
  write_json(folder / "modules.json",
             Json::array({module(0, "", "Transformer"), module(1, "1_Pooling", "Pooling")}));
}

}  // namespace

const BertOptions& ExportedModel::encoder() const {
  return classifier ? classifier->model->encoder_options() : masked_lm->options();
}

void check_exportable(const BertOptions& options, const std::string& origin) {
  const auto& block = options.block;
  const bool known = std::find(kExportedMixers.begin(), kExportedMixers.end(), block.mixer) !=
                     kExportedMixers.end();
  HYDRAMIX_CHECK(
      known, origin, ": its mixer is '", block.mixer,
      "', which the exported PyTorch model does not have; it has ",
      join(std::vector<std::string>(kExportedMixers.begin(), kExportedMixers.end())),
      ". Use the model through hydramix itself, or convert its weights with hydramix convert.");
  HYDRAMIX_CHECK(block.style == "mamba" || block.style == "plain", origin,
                 ": its block has style '", block.style,
                 "'; the exported PyTorch model has mamba and plain.");
  HYDRAMIX_CHECK(options.mlp.kind == "none" || options.mlp.blocks == 1, origin, ": its MLP has ",
                 options.mlp.blocks,
                 " blocks; the exported PyTorch model has MLPs of one block only.");
}

int64_t text_length(const ExportedModel& model) {
  int64_t length = model.classifier ? model.classifier->model->options().max_length : 0;
  if (length == 0) length = kEmbeddedLength;
  const int64_t longest = longest_sequence(model.encoder());
  return longest == 0 ? length : std::min(length, longest);
}

Json with_transformers_keys(Json config, const ExportedModel& model) {
  const auto& options = model.encoder();
  config["model_type"] = "hydramix";
  config["architectures"] = {architecture(model)};
  auto& map = config["auto_map"];
  map["AutoConfig"] = "configuration_hydramix.HydraMixConfig";
  for (const auto& [automatic, own] :
       {std::pair{"AutoModel", "HydraMixModel"},
        {"AutoModelForMaskedLM", "HydraMixForMaskedLM"},
        {"AutoModelForSequenceClassification", "HydraMixForSequenceClassification"},
        {"AutoModelForTokenClassification", "HydraMixForTokenClassification"}})
    map[automatic] = concat("modeling_hydramix.", own);
  config["vocab_size"] = options.vocab;
  config["hidden_size"] = options.block.d_model;
  config["num_hidden_layers"] = options.layers;
  config["type_vocab_size"] = options.type_vocab;
  if (const int64_t longest = longest_sequence(options); longest > 0)
    config["max_position_embeddings"] = longest;
  config["pad_token_id"] = model.tokenizer->special().pad;
  config["tie_word_embeddings"] = true;
  if (model.classifier) add_labels(config, *model.classifier);
  return config;
}

void export_folder(const fs::path& folder, const ExportedModel& model) {
  std::error_code failure;
  fs::remove(folder / "README.md", failure);
  HYDRAMIX_CHECK(!failure, (folder / "README.md").string(),
                 ": cannot be replaced: ", failure.message(), ". Choose another folder.");
  if (model.classifier)
    save_classifier(folder, model.classifier->model, *model.classifier, model.tokenizer);
  else
    save_model(folder, model.masked_lm, model.tokenizer);
  const auto config = read_json(config_path(folder), kConfigFile);
  write_json(config_path(folder), with_transformers_keys(config, model));
  write_json(folder / "tokenizer_config.json", tokenizer_config(model));
  for (const auto& [name, text] : python_files()) write_file(folder / name, text);
  write_sentence_transformers(folder, model);
  write_file(folder / "README.md", model.card);
}

}  // namespace hydramix
