// SPDX-License-Identifier: Apache-2.0
#include "cli/convert_input.h"

#include <algorithm>
#include <memory>

#include "base/atomic_file.h"
#include "base/list_folder.h"
#include "base/read_file.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "hydramix/weights.h"
#include "io/mapped_file.h"
#include "io/tensor_views.h"
#include "models/model_config.h"
#include "train/pretrain.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

constexpr const char *kConfigKey = "config", *kTokenizerKey = "tokenizer.json";

// Files of a model folder that conversion writes itself, or that hold the same weights.
bool is_model_file(const std::string& name) {
  return name == "config.json" || name == "tokenizer.json" || name == "model.safetensors" ||
         name == "pytorch_model.bin" || name.starts_with(".") ||
         name.find(".tmp.") != std::string::npos;
}

// The weights of a run's checkpoint, as if they came from a model folder.
ConvertInput from_run(const fs::path& path, const std::string& which) {
  auto trained = open_trained_model(path, which);
  ConvertInput input;
  auto keep = std::make_shared<std::vector<torch::Tensor>>();
  input.weights.path = trained.origin;
  for (const auto& [name, weight] : named_weights(*trained.model))
    input.weights.tensors.push_back(to_view(path, name, weight.detach(), *keep));
  input.weights.storage = keep;
  input.config = config_text(trained.model->options());
  input.tokenizer = std::move(trained.tokenizer);
  input.tokenizer_text = read_file(path / "tokenizer.json", kTokenizerFile);
  return input;
}

void add_files_beside(ConvertInput& input, const fs::path& folder) {
  const auto config = folder / "config.json", tokenizer = folder / "tokenizer.json";
  if (input.config.empty() && fs::is_regular_file(config)) {
    const auto text = read_file(config, kConfigFile);
    if (encoder_options_in(text, config.string())) input.config = text;
  }
  if (fs::is_regular_file(tokenizer)) try {
      input.tokenizer =
          input.config.empty() ? Tokenizer::load(tokenizer) : load_model_tokenizer(folder);
      input.tokenizer_text = read_file(tokenizer, kTokenizerFile);
    } catch (const Error&) {
      if (!input.config.empty()) throw;
      input.other_files.push_back(tokenizer);  // of another kind than ours: kept as it is
    }
  for (const auto& path : list_folder(folder))
    if (fs::is_regular_file(path) && !is_model_file(path.filename().string()))
      input.other_files.push_back(path);
  std::sort(input.other_files.begin(), input.other_files.end());
}

}  // namespace

ConvertInput open_convert_input(const fs::path& path, const std::string& which,
                                torch_archive::Selection selection) {
  fs::path source = path;
  if (fs::is_directory(path)) {
    if (const auto classifier = classifier_folder(path); !classifier.empty())
      source = classifier;
    else if (is_pretraining_run(path) && !fs::exists(path / "model.safetensors"))
      return from_run(path, which);
  }
  HYDRAMIX_CHECK_USAGE(which == "last", "convert: ", path.string(), " has no '", which,
                       "' weights; runs of pretraining do. Leave out --which.");
  ConvertInput input;
  input.weights = open_weights(source, selection);
  auto& metadata = input.weights.metadata;
  if (const auto config = metadata.find(kConfigKey); config != metadata.end())
    if (encoder_options_in(config->second, input.weights.path.string()))
      input.config = config->second;
  if (const auto text = metadata.find(kTokenizerKey); text != metadata.end()) {
    input.tokenizer_text = text->second;
    input.tokenizer = Tokenizer::parse(text->second, input.weights.path.string());
    metadata.erase(text);
  }
  if (fs::is_directory(source)) add_files_beside(input, source);
  return input;
}

safetensors::Metadata file_metadata(const ConvertInput& input) {
  auto metadata = input.weights.metadata;
  metadata.emplace("format", "pt");  // Hugging Face's loader refuses metadata without it
  if (!input.config.empty()) metadata[kConfigKey] = input.config;
  if (!input.tokenizer_text.empty()) metadata[kTokenizerKey] = input.tokenizer_text;
  return metadata;
}

void copy_other_files(const ConvertInput& input, const fs::path& folder) {
  for (const auto& file : input.other_files) {
    const auto target = folder / file.filename();
    const MappedFile original(file);
    AtomicFile copy(target);
    copy.write(original.bytes().data(), original.bytes().size());
    copy.commit();
  }
}

}  // namespace hydramix
