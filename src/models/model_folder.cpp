// SPDX-License-Identifier: Apache-2.0
#include "hydramix/model_folder.h"

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/quotes.h"
#include "hydramix/error.h"
#include "hydramix/tensor_file.h"
#include "hydramix/weights.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "hydramix-model";
constexpr int64_t kVersion = 1;

std::filesystem::path config_path(const std::filesystem::path& folder) {
  return folder / "config.json";
}
std::filesystem::path weights_path(const std::filesystem::path& folder) {
  return folder / "model.safetensors";
}

std::string config_text(const BertOptions& options) {
  const Json config{{"format", kFormat}, {"version", kVersion}, {"model", to_json(options)}};
  return config.dump(2) + "\n";
}

// Defaults may change with time, so a config says everything.
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

BertOptions parse_config(const std::string& text, const std::filesystem::path& path) {
  const auto config = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  HYDRAMIX_CHECK(config.is_object(), path.string(),
                 ": expected a JSON object, the config of a model; this is not one.");
  for (const char* key : {"format", "version", "model"})
    HYDRAMIX_CHECK(config.contains(key), path.string(), ": the key '", key,
                   "' is missing. Is this the config of a HydraMix model?");
  HYDRAMIX_CHECK(config["format"] == kFormat, path.string(), ": format is ",
                 clipped(config["format"].dump(), 80), ", expected \"", kFormat,
                 "\". Give a folder that holds a HydraMix model.");
  HYDRAMIX_CHECK(config["version"] == kVersion, path.string(), ": version is ",
                 clipped(config["version"].dump(), 80), "; this program reads version ", kVersion,
                 ". Use the program that wrote it, or save the model again.");
  BertOptions options;
  check_complete(to_json(options), config["model"], "model", path);
  parse_yaml(options, config["model"].dump(), path.string());
  return options;
}

}  // namespace

void save_model(const std::filesystem::path& folder, const BertForMaskedLM& model) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  HYDRAMIX_CHECK(!failure, folder.string(), ": cannot make the folder: ", failure.message(),
                 ". Choose a place that can be written.");
  const auto config = config_text(model->options());
  std::map<std::string, torch::Tensor> weights;
  for (const auto& [name, weight] : named_weights(*model))
    weights.emplace(name, weight.detach().cpu().contiguous());
  save_tensors(weights_path(folder), weights, {{"config", config}});
  write_file(config_path(folder), config);
}

BertForMaskedLM load_model(const std::filesystem::path& folder) {
  const auto text = read_file(config_path(folder));
  const auto options = parse_config(text, config_path(folder));
  const auto file = load_tensors(weights_path(folder));
  const auto saved_with = file.metadata.find("config");
  HYDRAMIX_CHECK(saved_with == file.metadata.end() ||
                     Json::parse(saved_with->second, nullptr, false) == Json::parse(text),
                 file.path.string(), ": the weights were saved with another config than ",
                 config_path(folder).string(),
                 ". Take both files from one save; a changed option needs a model of its own.");
  BertForMaskedLM model(options);
  for (const auto& [name, weight] : file.tensors)
    if (weight.scalar_type() == torch::kFloat64) {
      model->to(torch::kFloat64);
      break;
    }
  try {
    load_weights(*model, file.tensors);
  } catch (const Error& error) {
    throw Error(file.path.string() + ": " + error.what());
  }
  return model;
}

}  // namespace hydramix
