// SPDX-License-Identifier: Apache-2.0
#include "train/trained_model.h"

#include "base/json_reader.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "hydramix/weights.h"
#include "models/folder_files.h"
#include "models/size_check.h"
#include "models/text_model.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"

namespace hydramix {
namespace {

// The weights that a checkpoint holds under `prefix`.
void take_weights(BertForMaskedLM& model, const Checkpoint& checkpoint, const std::string& prefix,
                  const std::filesystem::path& origin) {
  std::map<std::string, torch::Tensor> weights;
  for (const auto& [name, tensor] : checkpoint.tensors)
    if (name.starts_with(prefix)) weights.emplace(name.substr(prefix.size()), tensor);
  HYDRAMIX_CHECK(!weights.empty(), origin.string(), ": holds no tensors named '", prefix,
                 "...'. Was the run asked to keep an average (train.optimizer.ema)?");
  load_weights(*model, weights);
}

// Unlike a run that continues, a command that uses weights must not take older ones instead: its
// result would be another.
Checkpoint read_newest(const std::filesystem::path& path) {
  try {
    return read_checkpoint(path);
  } catch (const Error& error) {
    throw Error(concat(error.what(), " Move the file away to use the checkpoint before it."));
  }
}

Tokenizer tokenizer_of_run(const std::filesystem::path& folder) {
  const auto path = folder / "tokenizer.json";
  auto tokenizer = Tokenizer::load(path);
  const auto data = data_of_run(folder);
  HYDRAMIX_CHECK(!data.contains("tokenizer") || data["tokenizer"] == tokenizer.fingerprint(),
                 path.string(),
                 ": is not the tokenizer of the run, or is damaged: its fingerprint "
                 "is ",
                 tokenizer.fingerprint(), ", data.json has ", data["tokenizer"].dump(),
                 ". Restore it; the command that began the run writes it again.");
  return tokenizer;
}

}  // namespace

std::filesystem::path classifier_folder(const std::filesystem::path& path) {
  if (is_classifier(path)) return path;
  const auto config = path / "config.json";
  if (!std::filesystem::is_regular_file(config)) return {};
  const auto run = try_parse_json(read_file(config, kConfigFile));
  if (!run.is_object() || !run.contains("task")) return {};
  HYDRAMIX_CHECK(std::filesystem::exists(path / "result.json"), path.string(),
                 ": is a run of fine-tuning on ", run["task"].dump(),
                 " that is not complete. The command that began it continues it.");
  return path / "model";
}

TrainedModel open_trained_model(const std::filesystem::path& path, const std::string& which) {
  HYDRAMIX_CHECK(std::filesystem::is_directory(path), path.string(),
                 ": is no folder; expected the folder of a model or of a run (hydramix pretrain).");
  const auto classifier = classifier_folder(path);
  if (!classifier.empty() && classifier != path)
    load_model(classifier);                  // throws, naming what the folder is
  if (is_of_images(path)) load_model(path);  // likewise
  if (const auto config = path / "config.json"; std::filesystem::is_regular_file(config)) {
    const auto run = try_parse_json(read_file(config, kConfigFile));
    HYDRAMIX_CHECK(!run.is_object() || !run.contains("recall"), path.string(),
                   ": is a run of train-recall, which keeps no model and knows no words; expected "
                   "the folder of a model or of a run (hydramix pretrain).");
  }
  const auto tokenizer_file = path / "tokenizer.json";
  HYDRAMIX_CHECK(std::filesystem::exists(tokenizer_file), path.string(),
                 ": has no tokenizer.json; expected the folder of a model or of a run. Put the "
                 "tokenizer of the model there.");
  BertForMaskedLM model{nullptr};
  std::optional<Tokenizer> tokenizer;
  std::filesystem::path origin = path / "model.safetensors";
  if (std::filesystem::exists(origin)) {
    HYDRAMIX_CHECK_USAGE(which == "last", path.string(), ": is a model, which has no '", which,
                         "' weights; runs do.");
    model = load_model(path);
    tokenizer = load_model_tokenizer(path);
  } else {
    tokenizer = tokenizer_of_run(path);
    const auto config = path / "config.json";
    const auto json = config_of_run(path);
    HYDRAMIX_CHECK(json.contains("model"), config.string(),
                   ": has no key 'model'; expected the configuration of a run.");
    BertOptions options;
    parse_yaml(options, json["model"].dump(), config.string());
    const CheckpointFolder checkpoints(path / "checkpoints", 1 << 20);
    if (which == "best") {
      origin = checkpoints.best();
    } else {
      const auto files = checkpoints.files();
      HYDRAMIX_CHECK(!files.empty(), (path / "checkpoints").string(), ": holds no checkpoint yet.");
      origin = files.front();
    }
    const auto checkpoint = which == "best" ? read_checkpoint(origin) : read_newest(origin);
    double held = 0;
    for (const auto& [name, tensor] : checkpoint.tensors)
      held += static_cast<double>(tensor.numel());
    check_size(options, held, config.string());
    model = BertForMaskedLM(options);
    take_weights(model, checkpoint, which == "average" ? "average." : "weights.", origin);
  }
  HYDRAMIX_CHECK(tokenizer->size() <= model->options().vocab, tokenizer_file.string(), ": has ",
                 tokenizer->size(), " tokens, the model ", model->options().vocab,
                 ". They do not belong together.");
  model->eval();
  return {model, *tokenizer, origin};
}

std::shared_ptr<const TextModel> open_text_model(const std::filesystem::path& path,
                                                 const std::string& which, Wanted wanted,
                                                 const TextModelOptions& options,
                                                 int64_t usual_length) {
  if (wanted == Wanted::kAny) {
    if (const auto classifier = classifier_folder(path); !classifier.empty()) {
      HYDRAMIX_CHECK_USAGE(which == "last", path.string(), ": is a classifier, which has no '",
                           which, "' weights; runs of pretraining do.");
      return TextModel::open(classifier, options, usual_length);
    }
  }
  auto trained = open_trained_model(path, which);
  return std::make_shared<const TextModel>(std::move(trained.model), std::move(trained.tokenizer),
                                           options, usual_length);
}

}  // namespace hydramix
