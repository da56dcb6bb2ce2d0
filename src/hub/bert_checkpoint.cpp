// SPDX-License-Identifier: Apache-2.0
#include "hub/bert_checkpoint.h"

#include <algorithm>

#include "base/json_reader.h"
#include "base/quotes.h"
#include "base/spelling.h"
#include "hydramix/error.h"
#include "hydramix/tensor_file.h"
#include "models/folder_files.h"
#include "models/size_check.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Weights = std::map<std::string, torch::Tensor>;

// The values of a config.json, whose path is in all errors.
class BertConfig {
 public:
  explicit BertConfig(const fs::path& folder)
      : path_(config_path(folder).string()), json_(read_json(config_path(folder), kConfigFile)) {
    HYDRAMIX_CHECK(json_.is_object(), path_, ": expected a JSON object, the config of a model.");
  }

  const std::string& path() const { return path_; }
  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  const Json& at(const char* key) const { return json_[key]; }

  std::string text(const char* key, const std::string& otherwise) const {
    if (!has(key)) return otherwise;
    HYDRAMIX_CHECK(json_[key].is_string(), path_, ": '", key, "' is ",
                   clipped(json_[key].dump(), 80), "; expected a text.");
    return json_[key].get<std::string>();
  }
  // Numbers are bounded, so that products of sizes cannot overflow.
  int64_t size(const char* key, int64_t otherwise) const {
    if (!has(key)) return otherwise;
    const auto& value = json_[key];
    HYDRAMIX_CHECK(value.is_number_integer() && value > 0 && value <= (1 << 26), path_, ": '", key,
                   "' is ", clipped(value.dump(), 80), "; expected a number from 1 to ", 1 << 26,
                   ".");
    return value.get<int64_t>();
  }
  double share(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    const auto& value = json_[key];
    HYDRAMIX_CHECK(value.is_number() && value >= 0 && value < 1, path_, ": '", key, "' is ",
                   clipped(value.dump(), 80), "; expected a number from 0 to below 1.");
    return value.get<double>();
  }

 private:
  std::string path_;
  Json json_;
};

void check_is_bert(const BertConfig& config) {
  const auto type = config.text("model_type", "");
  HYDRAMIX_CHECK(type != "hydramix" && !config.has("format"), config.path(),
                 ": is a model of hydramix, which its commands open as it is.");
  HYDRAMIX_CHECK(!type.empty(), config.path(),
                 ": has no 'model_type'; expected the config of a BERT of transformers, with "
                 "model_type \"bert\".");
  HYDRAMIX_CHECK(
      type == "bert", config.path(), ": model_type is ", in_quotes(type),
      "; import-hf reads \"bert\" alone. RoBERTa, DistilBERT, ModernBERT and others have "
      "other tokenizers, positions or layers.");
  const auto expect = [&](const char* key, const std::string& expected) {
    const auto given = config.text(key, expected);
    HYDRAMIX_CHECK(given == expected, config.path(), ": '", key, "' is ", in_quotes(given),
                   "; expected ", in_quotes(expected), ", BERT's own.");
  };
  expect("hidden_act", "gelu");
  expect("position_embedding_type", "absolute");
  for (const char* key : {"is_decoder", "add_cross_attention"})
    HYDRAMIX_CHECK(!config.has(key) || config.at(key) == false, config.path(), ": '", key,
                   "' is set; expected an encoder.");
}

BertOptions options_of(const BertConfig& config) {
  BertOptions o;
  o.vocab = config.size("vocab_size", 30522);
  o.type_vocab = config.size("type_vocab_size", 2);
  o.layers = config.size("num_hidden_layers", 12);
  o.positions = config.size("max_position_embeddings", 512);
  o.norm = "post";
  o.norm_eps = o.embedding_norm_eps = config.share("layer_norm_eps", 1e-12);
  o.dropout = o.output_dropout = config.share("hidden_dropout_prob", 0.1);
  o.initial_deviation = std::max(config.share("initializer_range", 0.02), 1e-6);
  o.mlp.kind = "gelu";
  o.mlp.width = config.size("intermediate_size", 3072);
  o.block.mixer = "attention";
  o.block.style = "plain";
  o.block.d_model = config.size("hidden_size", 768);
  o.block.expand = 1;
  o.block.bias = true;
  const int64_t heads = config.size("num_attention_heads", 12);
  HYDRAMIX_CHECK(o.block.d_model % heads == 0, config.path(), ": hidden_size ", o.block.d_model,
                 " is not a multiple of num_attention_heads ", heads, ".");
  o.block.headdim = o.block.mixer_options.qk_dim = o.block.d_model / heads;
  o.block.mixer_options.max_length = o.positions;
  o.block.mixer_options.dropout = config.share("attention_probs_dropout_prob", 0.1);
  return o;
}

// ---- weights ----

// The names of today: checkpoints of BertModel lack "bert.", old ones call a norm's weights gamma
// and beta.
Weights with_current_names(const Weights& given) {
  const bool alone = given.count("embeddings.word_embeddings.weight") != 0;
  Weights weights;
  for (const auto& [given_name, weight] : given) {
    std::string name = given_name;
    if (alone && !name.starts_with("classifier.")) name = "bert." + name;
    for (const auto& [old, now] : {std::pair{".gamma", ".weight"}, {".beta", ".bias"}})
      if (name.ends_with(std::string("LayerNorm") + old))
        name.replace(name.size() - std::string(old).size(), std::string::npos, now);
    weights.insert_or_assign(name, weight);
  }
  return weights;
}

// Takes a weight out of the map.
torch::Tensor take(Weights& weights, const std::string& name, const std::string& origin) {
  const auto found = weights.find(name);
  HYDRAMIX_CHECK(found != weights.end(), origin, ": has no weight '", name,
                 "'. Is the file complete, and is it of the model that config.json describes?");
  auto weight = found->second;
  weights.erase(found);
  return weight;
}

// Renames the weights of the layers.
void convert_layers(Weights& weights, int64_t layers, const std::string& origin) {
  for (int64_t i = 0; i < layers; ++i) {
    const std::string layer = concat("bert.encoder.layer.", i, ".");
    for (const std::string part : {".weight", ".bias"}) {
      const auto of = [&](const std::string& name) {
        return take(weights, layer + name + part, origin);
      };
      // in_proj holds x, which is the value, then q and k.
      const auto value = of("attention.self.value"), query = of("attention.self.query"),
                 key = of("attention.self.key");
      HYDRAMIX_CHECK(value.sizes() == query.sizes() && value.sizes() == key.sizes(), origin, ": '",
                     layer, "attention.self' has values of shape ", value.sizes(),
                     ", queries of shape ", query.sizes(), " and keys of shape ", key.sizes(),
                     "; expected one shape.");
      weights[layer + "layer.mixer.in_proj" + part] = torch::cat({value, query, key});
      weights[layer + "layer.mixer.out_proj" + part] = of("attention.output.dense");
      weights[layer + "layer.norm" + part] = of("attention.output.LayerNorm");
      weights[layer + "mlp.wi" + part] = of("intermediate.dense");
      weights[layer + "mlp.wo" + part] = of("output.dense");
      weights[layer + "mlp_norm" + part] = of("output.LayerNorm");
    }
  }
}

// Removes weights that our model does not have.
void leave_out(Weights& weights, const std::string& prefix, const char* why,
               std::vector<std::string>& notes) {
  const auto begin = weights.lower_bound(prefix);
  auto end = begin;
  while (end != weights.end() && end->first.starts_with(prefix)) ++end;
  if (begin == end) return;
  weights.erase(begin, end);
  notes.push_back(concat("left out '", prefix, "', ", why));
}

void convert_head(Weights& weights, const std::string& origin, std::vector<std::string>& notes) {
  const std::string head = "cls.predictions.", words = "bert.embeddings.word_embeddings.weight";
  if (const auto tied = weights.find(head + "decoder.weight"); tied != weights.end()) {
    const auto found = weights.find(words);
    HYDRAMIX_CHECK(found != weights.end() && torch::equal(tied->second, found->second), origin,
                   ": '", tied->first, "' differs from '", words,
                   "', but the model has one matrix for both. Was it trained with tied weights?");
    weights.erase(tied);
  }
  if (weights.count(head + "bias") != 0)
    weights.insert_or_assign(head + "decoder.bias", take(weights, head + "bias", origin));
  leave_out(weights, "cls.seq_relationship.", "the prediction of the next sentence", notes);
  leave_out(weights, "bert.pooler.", "which the masked-LM head does not use", notes);
}

// ---- parts beside the encoder ----

std::string architecture_of(const BertConfig& config, const Weights& weights) {
  const std::vector<std::string> known{"BertModel", "BertForMaskedLM", "BertForPreTraining",
                                       "BertForSequenceClassification"};
  if (!config.has("architectures"))
    return weights.count("classifier.weight") != 0      ? known[3]
           : weights.count("cls.predictions.bias") != 0 ? known[1]
                                                        : known[0];
  const auto& list = config.at("architectures");
  HYDRAMIX_CHECK(list.is_array() && list.size() == 1 && list[0].is_string(), config.path(),
                 ": 'architectures' is ", clipped(list.dump(), 80),
                 "; expected a list of one name.");
  auto name = list[0].get<std::string>();
  HYDRAMIX_CHECK(std::find(known.begin(), known.end(), name) != known.end(), config.path(),
                 ": architectures has ", in_quotes(name), "; import-hf reads ", join(known), ".");
  return name;
}

ClassifierFolder classifier_of(const BertConfig& config) {
  ClassifierFolder result;
  result.task = "imported";
  std::vector<std::string> labels;
  const Json& names = config.has("id2label") ? config.at("id2label") : Json::object();
  HYDRAMIX_CHECK(names.is_object(), config.path(), ": 'id2label' is ", clipped(names.dump(), 80),
                 "; expected an object of numbers and labels.");
  const auto count = config.has("id2label") ? std::ssize(names) : config.size("num_labels", 2);
  for (int64_t i = 0; i < count; ++i) {
    const auto key = std::to_string(i);
    HYDRAMIX_CHECK(names.empty() || (names.contains(key) && names[key].is_string()), config.path(),
                   ": 'id2label' has no text for label ", i, ".");
    labels.push_back(names.empty() ? "LABEL_" + key : names[key].get<std::string>());
  }
  const auto problem = config.text("problem_type", "");
  result.kind = labels.size() == 1 && problem != "multi_label_classification" ? "score"
                : problem == "multi_label_classification"                     ? "labels"
                                                                              : "classes";
  HYDRAMIX_CHECK(problem != "regression" || labels.size() == 1, config.path(),
                 ": problem_type is regression with ", labels.size(),
                 " outputs; expected one, a score.");
  if (result.kind == "labels") result.thresholds.assign(labels.size(), 0.5);
  if (result.kind != "score") result.labels = labels;
  return result;
}

// Vectors of an encoder without a head, pooled as sentence-transformers would.
ClassifierFolder vectors_of(const fs::path& folder, ClassifierOptions& options) {
  ClassifierFolder result;
  result.task = "imported";
  result.kind = "pairs";
  options = {.outputs = 0, .pooling = "mean", .dropout = 0, .max_length = 0};
  const auto object = [&](const fs::path& path) {
    auto json = fs::is_regular_file(path) ? read_json(path, kConfigFile) : Json::object();
    return json.is_object() ? json : Json::object();
  };
  const auto pooling = object(folder / "1_Pooling" / "config.json");
  if (pooling.value("pooling_mode_cls_token", false)) options.pooling = "cls";
  const auto text = object(folder / "sentence_bert_config.json");
  if (text.contains("max_seq_length") && text["max_seq_length"].is_number_integer() &&
      text["max_seq_length"] >= 3 && text["max_seq_length"] <= (1 << 24))
    options.max_length = text["max_seq_length"].get<int64_t>();
  return result;
}

Tokenizer tokenizer_of(const fs::path& folder) {
  if (fs::is_regular_file(folder / "tokenizer.json"))
    return Tokenizer::load(folder / "tokenizer.json");
  HYDRAMIX_CHECK(fs::is_regular_file(folder / "vocab.txt"), folder.string(),
                 ": has neither tokenizer.json nor vocab.txt. Save the tokenizer of the model "
                 "there, with tokenizer.save_pretrained(folder) in Python.");
  TokenizerOptions options;
  const auto path = folder / "tokenizer_config.json";
  const auto config = fs::is_regular_file(path) ? read_json(path, kConfigFile) : Json::object();
  const auto flag = [&](const char* key, bool otherwise) {
    if (!config.is_object() || !config.contains(key) || config[key].is_null()) return otherwise;
    HYDRAMIX_CHECK(config[key].is_boolean(), path.string(), ": '", key, "' is ",
                   clipped(config[key].dump(), 80), "; expected true or false.");
    return config[key].get<bool>();
  };
  options.lowercase = flag("do_lower_case", true);
  options.strip_accents = flag("strip_accents", options.lowercase);
  options.space_chinese = flag("tokenize_chinese_chars", true);
  return Tokenizer::load(folder / "vocab.txt", options);
}

}  // namespace

ImportedBert import_bert(const fs::path& folder) {
  HYDRAMIX_CHECK(fs::is_directory(folder), folder.string(),
                 ": is no folder; expected one with config.json, model.safetensors or "
                 "pytorch_model.bin, and the tokenizer of a BERT.");
  HYDRAMIX_CHECK(!fs::exists(folder / "model.safetensors.index.json") ||
                     fs::exists(folder / "model.safetensors"),
                 folder.string(),
                 ": its weights are in several files. Save the model again in one, with "
                 "model.save_pretrained(folder, max_shard_size=\"100GB\") in Python.");
  const BertConfig config(folder);
  check_is_bert(config);
  const auto options = options_of(config);
  try {
    validate(options);
  } catch (const Error& error) {
    throw Error(concat(config.path(), ": ", error.what()));
  }
  auto tokenizer = tokenizer_of(folder);
  HYDRAMIX_CHECK(tokenizer.size() <= options.vocab, folder.string(), ": its tokenizer has ",
                 tokenizer.size(), " tokens, vocab_size is ", options.vocab,
                 ". They do not belong together.");

  auto file = load_checkpoint(folder);
  const std::string origin = file.path.string();
  auto weights = with_current_names(file.tensors);
  double held = 0;
  for (const auto& [name, weight] : weights) held += static_cast<double>(weight.numel());
  check_size(options, held, config.path());
  ImportedBert result{.tokenizer = std::move(tokenizer),
                      .architecture = architecture_of(config, weights),
                      .notes = std::move(file.notes)};
  for (const std::string buffer : {"position_ids", "token_type_ids"})
    weights.erase("bert.embeddings." + buffer);
  convert_layers(weights, options.layers, origin);

  if (result.architecture == "BertForMaskedLM" || result.architecture == "BertForPreTraining") {
    convert_head(weights, origin, result.notes);
    result.masked_lm = BertForMaskedLM(options);
    fill_model(*result.masked_lm, weights, origin);
    result.masked_lm->eval();
    return result;
  }
  ClassifierOptions head;
  if (result.architecture == "BertModel") {
    result.classifier = vectors_of(folder, head);
    leave_out(weights, "bert.pooler.", "which vectors of texts do not use", result.notes);
  } else {
    result.classifier = classifier_of(config);
    const auto labels = std::ssize(result.classifier->labels);
    head = {.outputs = labels == 0 ? 1 : labels,
            .pooling = "cls",
            .dropout = config.share("classifier_dropout", options.dropout),
            .max_length = 0};
  }
  result.classifier->model = SequenceClassifier(options, head);
  fill_model(*result.classifier->model, weights, origin);
  result.classifier->model->eval();
  return result;
}

}  // namespace hydramix
