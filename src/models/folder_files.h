// SPDX-License-Identifier: Apache-2.0
// The files of a model's folder, whatever the model: config.json and model.safetensors, which holds
// a copy of the config. See hydramix/model_folder.h.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <string>

#include "base/add_missing.h"
#include "hydramix/options.h"
#include "hydramix/tokenizer.h"
#include "hydramix/torch_compat.h"

namespace hydramix {

inline constexpr const char* kModelFormat = "hydramix-model";
inline constexpr const char* kImageModelKey = "image_model";  // options of an image model

std::filesystem::path config_path(const std::filesystem::path& folder);
std::filesystem::path weights_path(const std::filesystem::path& folder);
std::filesystem::path tokenizer_path(const std::filesystem::path& folder);

// Whether the folder holds a model of images, or a run that trains one.
bool is_of_images(const std::filesystem::path& folder);

// {"format", "version"}, the first keys of every config.
nlohmann::ordered_json config_head();

// The config as JSON. Throws an Error that names `path` unless the text is the config of a model of
// this version with this key.
nlohmann::ordered_json parse_model_config(const std::string& text,
                                          const std::filesystem::path& path, const char* key);

// Throws if `given` lacks a key of `expected`. Defaults may change, so a config must be complete.
void check_complete(const nlohmann::ordered_json& expected, const nlohmann::ordered_json& given,
                    const std::string& at, const std::filesystem::path& path);

template <class Options>
Options parse_section(const nlohmann::ordered_json& config, const char* key,
                      const std::filesystem::path& path) {
  Options options;
  check_complete(to_json(options), config[key], key, path);
  parse_yaml(options, config[key].dump(), path.string());
  return options;
}

// The number of weights in the folder's file.
double weights_held(const std::filesystem::path& folder);

// Writes the files. The config gets the fingerprint of the tokenizer, if there is one.
void save_folder(const std::filesystem::path& folder, const torch::nn::Module& model,
                 nlohmann::ordered_json config, const Tokenizer* tokenizer);

// Loads weights into a model, which becomes float64 if they are. `origin` names them in errors.
void fill_model(torch::nn::Module& model, const std::map<std::string, torch::Tensor>& weights,
                const std::string& origin);

// Whether weights saved with the config `copy` belong to `config`: every key of the copy has the
// same value there. Further keys belong to other programs, such as Hugging Face's transformers.
bool is_config_of(const std::string& copy, const nlohmann::json& config);

// The folder's weights, which must have been saved with this config. Transformers may have saved
// them again: it names the weights of an encoder alone without "bert.".
std::map<std::string, torch::Tensor> read_weights(const std::filesystem::path& folder,
                                                  const std::string& config);

}  // namespace hydramix
