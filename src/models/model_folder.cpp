// SPDX-License-Identifier: Apache-2.0
#include "hydramix/model_folder.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

#include "base/add_missing.h"
#include "base/json_reader.h"
#include "base/quotes.h"
#include "hydramix/error.h"
#include "models/folder_files.h"
#include "models/model_config.h"
#include "models/size_check.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;

// The part of a classifier's config that is not encoder options.
struct ClassifierSection {
  ClassifierOptions options;
  ClassifierTask about;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    ClassifierOptions::fields(self.options, v);
    auto& about = self.about;
    v("task", about.task, "name of the task");
    v("labels", about.labels, "names of the outputs; none: a score, or vectors");
    v("kind", about.kind, Choices{"classes", "score", "labels", "tokens", "pairs"},
      "what the outputs mean");
    v("thresholds", about.thresholds, Range{0.0, 1.0}, "probabilities from which labels apply");
    v("text", about.text, "column of the texts");
    v("pair", about.pair, "column of the second texts");
    v("label", about.label, "column of the labels");
    v("separator", about.separator, "text between several labels");
    v("pairs", about.pairs, "whether two texts are read together");
  }
};

// The keys that folders of version 1 did not have at first, with the values that they implied.
void add_later_classifier_keys(Json& section) {
  if (!section.is_object() || section.contains("kind")) return;
  const bool labelled = section.contains("labels") && !section["labels"].empty();
  section["kind"] = labelled ? "classes" : "score";
  section["thresholds"] = Json::array();
  for (const char* key : {"text", "pair", "label", "separator"}) section[key] = "";
  section["pairs"] = false;
}

Json base_config(const BertOptions& options) {
  auto config = config_head();
  config["model"] = to_json(options);
  return config;
}

struct Config {
  std::string text;
  std::string tokenizer;  // fingerprint; empty where the config has none
  BertOptions model;
  std::optional<ClassifierSection> classifier;
};

// `origin` is the start of the error message.
void check_labels(const std::string& origin, int64_t outputs, const ClassifierTask& task) {
  const auto& labels = task.labels;
  HYDRAMIX_CHECK((task.kind == "pairs") == (outputs == 0), origin, ": ", outputs,
                 " outputs for the kind \"", task.kind,
                 "\"; expected none for pairs, whose vectors are the answer, and some otherwise.");
  HYDRAMIX_CHECK(
      task.kind == "labels" ? task.thresholds.size() == labels.size() : task.thresholds.empty(),
      origin, ": ", task.thresholds.size(), " thresholds for ", labels.size(), " labels of kind \"",
      task.kind, "\"; expected one for each of several labels, and none otherwise.");
  const auto count = static_cast<int64_t>(labels.size());
  HYDRAMIX_CHECK(count == outputs || (count == 0 && outputs == 1), origin, ": ", count,
                 " labels for ", outputs,
                 " outputs; expected as many, or none for a single output, a score.");
  HYDRAMIX_CHECK(count != 1 || task.kind == "labels", origin, ": one label ", in_quotes(labels[0]),
                 " for one output; a class needs another to be told from. Give no label for a "
                 "score.");
  for (std::size_t k = 0; k < labels.size(); ++k)
    HYDRAMIX_CHECK(std::find(labels.begin(), labels.begin() + k, labels[k]) == labels.begin() + k,
                   origin, ": the label ", in_quotes(labels[k]),
                   " stands twice. Give every class a name of its own.");
}

// `path` names the text in errors.
Config parse_config(const std::string& text, const std::filesystem::path& path) {
  const auto config = parse_model_config(text, path, "model");
  std::string tokenizer;
  if (config.contains("tokenizer")) {
    HYDRAMIX_CHECK(config["tokenizer"].is_string(), path.string(), ": 'tokenizer' is ",
                   clipped(config["tokenizer"].dump(), 80),
                   ", expected a fingerprint. Copy the file again from where the model was saved.");
    tokenizer = config["tokenizer"].get<std::string>();
  }
  auto complete = config;
  add_missing(complete["model"], later_model_keys());
  Config result{text, tokenizer, parse_section<BertOptions>(complete, "model", path), std::nullopt};
  if (config.contains("classifier")) {
    add_later_classifier_keys(complete["classifier"]);
    result.classifier = parse_section<ClassifierSection>(complete, "classifier", path);
    check_labels(path.string() + ": classifier.labels", result.classifier->options.outputs,
                 result.classifier->about);
  }
  return result;
}

Config read_config(const std::filesystem::path& folder) {
  return parse_config(read_file(config_path(folder), kConfigFile), config_path(folder));
}

Config read_classifier_config(const std::filesystem::path& folder) {
  auto config = read_config(folder);
  HYDRAMIX_CHECK(config.classifier, config_path(folder).string(),
                 ": has no key 'classifier': this is a masked-language model; expected a "
                 "classifier. Make one of it with hydramix finetune, or open it with "
                 "load_model().");
  return config;
}

// A config cannot ask for more memory than its weights take.
void check_memory(const std::filesystem::path& folder, const Config& config) {
  check_size(config.model, weights_held(folder), config_path(folder).string());
}

// Loads the folder's weights into a model made from its config.
void load(const std::filesystem::path& folder, const Config& config, torch::nn::Module& model) {
  fill_model(model, read_weights(folder, config.text), weights_path(folder).string());
}

}  // namespace

void save_model(const std::filesystem::path& folder, const BertForMaskedLM& model,
                const Tokenizer* tokenizer) {
  save_folder(folder, *model, base_config(model->options()), tokenizer);
}

BertForMaskedLM load_model(const std::filesystem::path& folder) {
  const auto config = read_config(folder);
  HYDRAMIX_CHECK(!config.classifier, config_path(folder).string(),
                 ": this is a classifier for the task ", in_quotes(config.classifier->about.task),
                 "; expected a masked-language model. Open it with load_classifier() or hydramix "
                 "predict, or give the model that it was fine-tuned from.");
  check_memory(folder, config);
  BertForMaskedLM model(config.model);
  load(folder, config, *model);
  return model;
}

void save_classifier(const std::filesystem::path& folder, const SequenceClassifier& model,
                     const std::string& task, const std::vector<std::string>& labels,
                     const Tokenizer* tokenizer) {
  save_classifier(folder, model, ClassifierTask{task, labels}, tokenizer);
}

void save_classifier(const std::filesystem::path& folder, const SequenceClassifier& model,
                     const ClassifierTask& task, const Tokenizer* tokenizer) {
  ClassifierSection section{model->options(), task};
  if (section.about.kind.empty()) section.about.kind = task.labels.empty() ? "score" : "classes";
  check_labels("save_classifier: " + folder.string(), model->options().outputs, section.about);
  auto config = base_config(model->encoder_options());
  config["classifier"] = to_json(section);
  save_folder(folder, *model, config, tokenizer);
}

ClassifierTask load_classifier_task(const std::filesystem::path& folder) {
  return read_classifier_config(folder).classifier->about;
}

ClassifierFolder load_classifier(const std::filesystem::path& folder) {
  const auto config = read_classifier_config(folder);
  check_memory(folder, config);
  SequenceClassifier model(config.model, config.classifier->options);
  load(folder, config, *model);
  return {config.classifier->about, model};
}

Tokenizer load_model_tokenizer(const std::filesystem::path& folder) {
  const auto path = tokenizer_path(folder);
  HYDRAMIX_CHECK(std::filesystem::exists(path), path.string(),
                 ": does not exist; expected the tokenizer that the model was trained with. Put it "
                 "beside the model.");
  auto tokenizer = Tokenizer::load(path);
  const auto recorded = read_config(folder).tokenizer;
  HYDRAMIX_CHECK(recorded.empty() || recorded == tokenizer.fingerprint(), path.string(),
                 ": is not the tokenizer that the model was saved with, or is damaged: its "
                 "fingerprint is ",
                 tokenizer.fingerprint(), ", ", config_path(folder).string(), " has ",
                 in_quotes(recorded), ". Copy it again from where the model was saved.");
  return tokenizer;
}

bool is_classifier(const std::filesystem::path& folder) {
  if (!std::filesystem::is_regular_file(config_path(folder))) return false;
  const auto config = try_parse_json(read_file(config_path(folder), kConfigFile));
  return config.is_object() && config.contains("classifier");
}

Json later_layer_keys() {
  return Json::parse(R"({
    "mlp": {"input_bias": true, "dropout": 0.0},
    "block": {"mixer_options": {"filter_layers": 4}}
  })");
}

Json later_model_keys() {
  auto keys = Json::parse(R"({
    "initial_distribution": "normal",
    "norm_eps": 1e-5,
    "embedding_norm_eps": 1e-12,
    "output_dropout": 0.0,
    "block": {
      "separate": false,
      "causal_conv": false,
      "side_mixer": "none",
      "mixer_options": {
        "skip": true,
        "spectrum": "linear",
        "discretisation": "zoh",
        "grid_width": 14,
        "projected_length": 128,
        "kaleidoscope_width": 1,
        "kaleidoscope_expansion": 1,
        "core": "semiseparable",
        "combine": "quasi",
        "own_weights": false,
        "order": 2,
        "filter_width": 64,
        "filter_features": 5,
        "filter_frequency": 10.0,
        "filter_decay": 0.99
      }
    }
  })");
  add_missing(keys, later_layer_keys());
  return keys;
}

std::string config_text(const BertOptions& options) { return base_config(options).dump(2) + "\n"; }

std::optional<BertOptions> encoder_options_in(const std::string& config,
                                              const std::string& origin) {
  const auto json = try_parse_json(config);
  if (!json.is_object() || !json.contains("format") || json["format"] != kModelFormat)
    return std::nullopt;
  return parse_config(config, origin).model;
}

void save_parts(const std::filesystem::path& folder, const FolderParts& parts,
                const std::string& origin) {
  const auto config = parse_config(parts.config, origin);
  double held = 0;
  for (const auto& [name, weight] : parts.weights) held += static_cast<double>(weight.numel());
  check_size(parts.options, held, origin + ": its config");
  auto json = try_parse_json(parts.config);
  json["model"] = to_json(parts.options);
  json.erase("tokenizer");
  if (config.classifier) {
    SequenceClassifier model(parts.options, config.classifier->options);
    fill_model(*model, parts.weights, origin);
    save_folder(folder, *model, json, parts.tokenizer);
  } else {
    BertForMaskedLM model(parts.options);
    fill_model(*model, parts.weights, origin);
    save_folder(folder, *model, json, parts.tokenizer);
  }
}

}  // namespace hydramix
