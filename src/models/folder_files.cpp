// SPDX-License-Identifier: Apache-2.0
#include "models/folder_files.h"

#include "base/atomic_file.h"
#include "base/json_reader.h"
#include "base/quotes.h"
#include "hydramix/error.h"
#include "hydramix/safetensors.h"
#include "hydramix/tensor_file.h"
#include "hydramix/weights.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kVersion = 1;

// A model of texts where one of images is wanted, and the reverse.
void check_kind(const Json& config, const std::filesystem::path& path, const char* key) {
  const std::string other = std::string(key) == kImageModelKey ? "model" : kImageModelKey;
  if (config.contains(key) || !config.contains(other)) return;
  const bool images = other == kImageModelKey;
  throw Error(concat(path.string(), ": is a model of ", images ? "images" : "texts",
                     "; expected one of ", images ? "texts" : "images", ". ",
                     images ? "hydramix classify answers with it."
                            : "hydramix predict, fill-mask and embed answer with it."));
}

}  // namespace

std::filesystem::path config_path(const std::filesystem::path& folder) {
  return folder / "config.json";
}
std::filesystem::path weights_path(const std::filesystem::path& folder) {
  return folder / "model.safetensors";
}

std::filesystem::path tokenizer_path(const std::filesystem::path& folder) {
  return folder / "tokenizer.json";
}

bool is_of_images(const std::filesystem::path& folder) {
  if (!std::filesystem::is_regular_file(config_path(folder))) return false;
  const auto config = try_parse_json(read_file(config_path(folder), kConfigFile));
  return config.is_object() && (config.contains(kImageModelKey) || config.contains("augment"));
}

Json config_head() { return {{"format", kModelFormat}, {"version", kVersion}}; }

Json parse_model_config(const std::string& text, const std::filesystem::path& path,
                        const char* key) {
  auto config = try_parse_json(text);
  HYDRAMIX_CHECK(config.is_object(), path.string(),
                 ": expected a JSON object, the config of a model; this is not one.");
  const auto folder = path.parent_path();
  if (!config.contains("format") && (config.contains("task") || config.contains("train")))
    throw Error(concat(folder.string(), ": is the folder of a run of ",
                       config.contains("task") ? "fine-tuning; the classifier is in "
                       : config.contains("augment")
                           ? "train-images; the model, which is one of images, is in "
                           : "pretraining, which is no classifier before hydramix finetune; the "
                             "model is in ",
                       (folder / "model").string(), "."));
  check_kind(config, path, key);
  for (const char* needed : {"format", "version", key})
    HYDRAMIX_CHECK(config.contains(needed), path.string(), ": the key '", needed,
                   "' is missing. Is this the config of a HydraMix model?");
  HYDRAMIX_CHECK(config["format"] == kModelFormat, path.string(), ": format is ",
                 clipped(config["format"].dump(), 80), ", expected \"", kModelFormat,
                 "\". Give a folder that holds a HydraMix model.");
  HYDRAMIX_CHECK(config["version"] == kVersion, path.string(), ": version is ",
                 clipped(config["version"].dump(), 80), "; this program reads version ", kVersion,
                 ". Use the program that wrote it, or save the model again.");
  return config;
}

void check_complete(const Json& expected, const Json& given, const std::string& at,
                    const std::filesystem::path& path) {
  for (const auto& [key, value] : expected.items()) {
    const std::string name = at + "." + key;
    HYDRAMIX_CHECK(given.is_object() && given.contains(key), path.string(), ": the key '", name,
                   "' is missing. Copy the file again from where the model was saved, or add the "
                   "value that the model was trained with.");
    if (value.is_object()) check_complete(value, given[key], name, path);
  }
}

double weights_held(const std::filesystem::path& folder) {
  const auto file = safetensors::File::open(weights_path(folder));
  double held = 0;
  for (const auto& view : file.tensors()) {
    const std::size_t values = view.data.size() / safetensors::dtype_size(view.dtype);
    held += static_cast<double>(values);
  }
  return held;
}

void save_folder(const std::filesystem::path& folder, const torch::nn::Module& model, Json config,
                 const Tokenizer* tokenizer) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  HYDRAMIX_CHECK(!failure, folder.string(), ": cannot make the folder: ", failure.message(),
                 ". Choose a place that can be written.");
  if (tokenizer != nullptr) {
    tokenizer->save(tokenizer_path(folder));
    config["tokenizer"] = tokenizer->fingerprint();
  }
  const auto text = config.dump(2) + "\n";
  std::map<std::string, torch::Tensor> weights;
  for (const auto& [name, weight] : named_weights(model))
    weights.emplace(name, weight.detach().cpu().contiguous());
  // Hugging Face's loader refuses metadata without this format.
  save_tensors(weights_path(folder), weights, {{"config", text}, {"format", "pt"}});
  write_file(config_path(folder), text);
}

void fill_model(torch::nn::Module& model, const std::map<std::string, torch::Tensor>& weights,
                const std::string& origin) {
  for (const auto& [name, weight] : weights)
    if (weight.scalar_type() == torch::kFloat64) {
      model.to(torch::kFloat64);
      break;
    }
  try {
    load_weights(model, weights);
  } catch (const Error& error) {
    throw Error(origin + ": " + error.what());
  }
}

bool is_config_of(const std::string& copy, const nlohmann::json& config) {
  const auto saved_with = try_parse_json<nlohmann::json>(copy);
  if (!saved_with.is_object() || !config.is_object()) return false;
  for (const auto& [key, value] : saved_with.items())
    if (!config.contains(key) || config[key] != value) return false;
  // A section that changes what the weights mean.
  return saved_with.contains("classifier") == config.contains("classifier");
}

std::map<std::string, torch::Tensor> read_weights(const std::filesystem::path& folder,
                                                  const std::string& config) {
  auto file = load_tensors(weights_path(folder));
  if (file.has("embeddings.word_embeddings.weight")) {
    std::map<std::string, torch::Tensor> named;
    for (const auto& [name, weight] : file.tensors) named.emplace("bert." + name, weight);
    file.tensors = std::move(named);
  }
  const auto saved_with = file.metadata.find("config");
  HYDRAMIX_CHECK(saved_with == file.metadata.end() ||
                     is_config_of(saved_with->second, try_parse_json<nlohmann::json>(config)),
                 file.path.string(), ": the weights were saved with another config than ",
                 config_path(folder).string(),
                 ", or that file is damaged. Take both files from one save; a changed option needs "
                 "a model of its own.");
  return file.tensors;
}

}  // namespace hydramix
