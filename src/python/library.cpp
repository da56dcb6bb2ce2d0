// SPDX-License-Identifier: Apache-2.0
// torch.ops.hydramix: functions on specs, model folders, files of tensors and the built-in
// language. run.cpp has the operators on tensors.
#include <torch/library.h>

#include <nlohmann/json.hpp>

#include "base/read_file.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "hydramix/registry.h"
#include "hydramix/tensor_file.h"
#include "hydramix/weights.h"
#include "language/glue.h"
#include "language/language_documents.h"
#include "language/lexicon.h"
#include "models/folder_files.h"
#include "models/model_config.h"
#include "python/errors.h"
#include "python/module_pool.h"
#include "python/optional.h"
#include "python/tokenizer_class.h"

namespace hydramix {
namespace {

using Names = std::vector<std::string>;
using Tensors = std::vector<torch::Tensor>;

std::tuple<Names, Tensors> initial(const std::string& spec) {
  return with_python_errors([&] {
    auto made = initial_module(spec);
    return std::tuple(std::move(made.names), std::move(made.weights));
  });
}

// The registered metadata of every mixer, as JSON.
std::string described_mixers() {
  nlohmann::ordered_json all;
  for (const auto& name : mixer_names()) {
    const auto& info = mixer_info(name);
    all[name] = {{"matrix_class", info.matrix_class},
                 {"formula", info.formula},
                 {"cost", info.cost},
                 {"source", info.source},
                 {"causal", info.causal},
                 {"extendable", info.extendable},
                 {"is_matrix", info.linear},
                 {"choose", info.choose}};
  }
  return all.dump();
}

// The config, and the weights by name, which are read from the folder completely.
std::tuple<std::string, Names, Tensors> load_folder(const std::string& folder) {
  return with_python_errors([&] {
    std::map<std::string, torch::Tensor> weights;
    if (is_classifier(folder))
      weights = named_weights(*load_classifier(folder).model);
    else
      weights = named_weights(*load_model(folder));
    std::tuple<std::string, Names, Tensors> result{
        read_file(config_path(folder), kConfigFile), {}, {}};
    for (const auto& [name, weight] : weights) {
      std::get<1>(result).push_back(name);
      std::get<2>(result).push_back(weight.detach());
    }
    return result;
  });
}

using OptionalTokenizer = Optional<c10::intrusive_ptr<TokenizerClass>>;

void write_folder(const std::string& folder, const std::string& config, const Names& names,
                  const Tensors& weights, const OptionalTokenizer& tokenizer) {
  with_python_errors([&] {
    const auto options = encoder_options_in(config, folder);
    HYDRAMIX_CHECK_USAGE(options && names.size() == weights.size(), folder,
                         ": expected the config of a model, and a name for each weight.");
    FolderParts parts{{}, config, *options, nullptr};
    for (std::size_t i = 0; i < names.size(); ++i)
      parts.weights.emplace(names[i], weights[i].detach().cpu());
    if (tokenizer.has_value()) parts.tokenizer = &(*tokenizer)->tokenizer();
    save_parts(folder, parts, folder);
  });
}

std::tuple<Names, Tensors, std::string> load_file(const std::string& path) {
  const auto file = load_checkpoint(path);
  std::tuple<Names, Tensors, std::string> result;
  for (const auto& [name, tensor] : file.tensors) {
    std::get<0>(result).push_back(name);
    std::get<1>(result).push_back(tensor.clone());  // Python may write to it
  }
  std::get<2>(result) = nlohmann::json(file.metadata).dump();
  return result;
}

Names language_texts(int64_t count, int64_t first, bool validation) {
  return with_python_errors([&] {
    HYDRAMIX_CHECK_USAGE(count >= 0 && first >= 0, "language: expected counts from 0; got ", count,
                         " and ", first, ".");
    const Language language;
    Names texts;
    for (int64_t i = first; i < first + count; ++i)
      texts.push_back(
          language.text(language.document(i, validation ? Split::kValidation : Split::kTrain)));
    return texts;
  });
}

c10::intrusive_ptr<TokenizerClass> tokenizer_of_language() {
  std::string lines;
  for (const auto& token : language_vocabulary()) lines += token + "\n";
  return c10::make_intrusive<TokenizerClass>(lines, /*lowercase=*/true, "the built-in language");
}

// The files of a GLUE task: names, then contents.
std::tuple<Names, Names> language_task(const std::string& task, int64_t train, int64_t dev,
                                       int64_t seed) {
  return with_python_errors([&] {
    std::tuple<Names, Names> files;
    for (auto& file : make_glue_task(task, {.train = train, .dev = dev, .test = 1}, seed)) {
      std::get<0>(files).push_back(std::move(file.path));
      std::get<1>(files).push_back(std::move(file.contents));
    }
    return files;
  });
}

}  // namespace

TORCH_LIBRARY(hydramix, m) {
  register_tokenizer(m);
  m.def("version() -> str", [] { return std::string(HYDRAMIX_VERSION); });
  m.def("default_spec(str kind) -> str",
        [](const std::string& kind) { return default_spec(kind); });
  m.def("initial(str spec) -> (str[], Tensor[])", initial);
  m.def("described_mixers() -> str", described_mixers);
  m.def("load_folder(str folder) -> (str, str[], Tensor[])", load_folder);
  m.def(
      "save_folder(str folder, str config, str[] names, Tensor[] weights, "
      "__torch__.torch.classes.hydramix.Tokenizer? tokenizer) -> ()",
      write_folder);
  m.def("load_file(str path) -> (str[], Tensor[], str)", load_file);
  m.def("language_texts(int count, int first, bool validation) -> str[]", language_texts);
  m.def("language_tokenizer() -> __torch__.torch.classes.hydramix.Tokenizer",
        tokenizer_of_language);
  m.def("language_task(str task, int train, int dev, int seed) -> (str[], str[])", language_task);
}

}  // namespace hydramix
