// SPDX-License-Identifier: Apache-2.0
#include "train/pretrain.h"

#include <memory>

#include "base/add_missing.h"
#include "base/json_reader.h"
#include "data/token_shards.h"
#include "dist/launch_environment.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "language/language_documents.h"
#include "models/device.h"
#include "models/model_config.h"
#include "ops/gemm_rate.h"
#include "ops/graph.h"
#include "train/masked_lm.h"
#include "train/run_folder.h"

namespace hydramix {
namespace {

const std::string kLanguage = "language";

// ---- the request, checked before any work ----

// Names the option that limits the sequence length.
void check_length(const PretrainOptions& options) {
  const int64_t length = options.data.sequences.max_length;
  const auto& model = options.model;
  HYDRAMIX_CHECK_USAGE(model.positions == 0 || length <= model.positions,
                       "data.sequences.max_length: ", length,
                       " is more than model.positions, which is ", model.positions, ".");
  const int64_t longest = longest_sequence(model);
  HYDRAMIX_CHECK_USAGE(longest == 0 || length <= longest, "data.sequences.max_length: ", length,
                       " is more than model.block.mixer_options.max_length, which is ", longest,
                       "; ", model.block.mixer, " takes no longer sequences.");
}

Tokenizer open_tokenizer(const DataOptions& data) {
  if (data.train == kLanguage || data.validation == kLanguage) {
    HYDRAMIX_CHECK_USAGE(data.train == data.validation,
                         "data: train and validation must both be the built-in language, or both "
                         "token shards; got '",
                         data.train, "' and '", data.validation, "'.");
    HYDRAMIX_CHECK_USAGE(data.vocab.empty(), "data.vocab: got '", data.vocab,
                         "', but the built-in language has a vocabulary of its own. Leave it out.");
    return language_tokenizer();
  }
  HYDRAMIX_CHECK_USAGE(!data.vocab.empty(),
                       "data.vocab: name the vocab.txt or tokenizer.json that '", data.train,
                       "' was made with.");
  return Tokenizer::load(data.vocab, data.cased ? TokenizerOptions::cased() : TokenizerOptions{});
}

std::unique_ptr<Documents> open_documents(const std::string& name, const DataOptions& data,
                                          Split split, const Tokenizer& tokenizer) {
  std::unique_ptr<Documents> documents;
  if (name == kLanguage) {
    documents = std::make_unique<LanguageDocuments>(
        data.language, split,
        split == Split::kTrain ? data.language_documents
                               : evaluated_language_documents(data.evaluation_documents));
  } else {
    auto shards = std::make_unique<TokenShards>(name);
    shards->check_tokenizer(tokenizer.fingerprint(), "data.vocab " + data.vocab);
    documents = std::move(shards);
  }
  return sequence_documents(std::move(documents), data.sequences, tokenizer);
}

// Options that may differ between a run and its continuation: only those that do not change the
// results.
const RunRules& pretrain_rules() {
  static const RunRules rules{free_run_keys(),
                              {{"model", later_model_keys()},
                               {"train",
                                {{"optimizer",
                                  {{"decay_rule", "decoupled"},
                                   {"groups", nlohmann::ordered_json::array()},
                                   {"ema_warmup", false}}},
                                 {"schedule", {{"shape", "linear"}}}}}}};
  return rules;
}

}  // namespace

PretrainResult pretrain(const PretrainOptions& options, const PretrainEvents& events) {
  validate(options);
  check_length(options);
  const auto launch = launch_environment();
  HYDRAMIX_CHECK_USAGE(options.train.batch % launch.size == 0, "train.batch: ", options.train.batch,
                       " sequences cannot be divided among ", launch.size,
                       " ranks. Choose a batch that is a multiple of the number of ranks.");
  const auto device = choose_device(options.device, launch.local_rank);
  const auto precision = choose_precision(options.precision, device);
  // Captured steps need a separate stream, from the first tensor on.
  const OwnStream stream(device);
  const auto tokenizer = open_tokenizer(options.data);
  HYDRAMIX_CHECK_USAGE(tokenizer.size() <= options.model.vocab,
                       "model.vocab: ", options.model.vocab, " is less than the tokenizer's ",
                       tokenizer.size(), " tokens. Set model.vocab=", tokenizer.size(), ".");
  const auto training = open_documents(options.data.train, options.data, Split::kTrain, tokenizer);
  const auto validation = open_validation(options.data, tokenizer);
  const auto seed = static_cast<uint64_t>(options.train.seed);
  TrainOptions train = options.train;
  train.micro_batch = examples_at_once(train, device, options.data.sequences.max_length);
  const MaskedBatches training_batches(*training, tokenizer, options.data.sequences, seed);
  const MaskedBatches validation_batches(*validation, tokenizer, options.data.sequences, seed);

  if (launch.rank == 0 && events.building) events.building(parameter_count(options.model));
  torch::manual_seed(seed);
  BertForMaskedLM model(options.model);
  check_parameter_groups(*model, options.train.optimizer.groups);
  model->to(device);
  model->set_precision(precision);

  return among_ranks({options.train.timeout}, device, [&](Communicator& communicator) {
    communicator.agree("the options", to_json(options).dump());
    communicator.agree("the data", concat(training->fingerprint(), " ", validation->fingerprint(),
                                          " ", tokenizer.fingerprint()));
    const std::filesystem::path folder = options.out;
    std::unique_ptr<RunFolder> run;
    if (communicator.rank() == 0) {
      run = std::make_unique<RunFolder>(folder);
      run->keep(to_json(options), pretrain_rules(),
                {{"train", training->fingerprint()},
                 {"validation", validation->fingerprint()},
                 {"tokenizer", tokenizer.fingerprint()}});
      tokenizer.save(folder / "tokenizer.json");
    }
    MaskedLm task(model, training_batches, *validation, validation_batches,
                  {train.micro_batch, options.data.evaluation_documents, options.train.seed, device,
                   captures_steps(options.model.block, device, precision, communicator),
                   communicator.rank() == 0 ? events.message : nullptr});

    PretrainResult result;
    for (const auto& parameter : model->parameters()) result.parameters += parameter.numel();
    TrainEvents forwarded = events;
    forwarded.evaluation = [&](int64_t step, const nlohmann::ordered_json& evaluation) {
      result.evaluation = evaluation;
      if (events.evaluation) events.evaluation(step, evaluation);
    };
    Trainer trainer(task, train, communicator, folder, forwarded);
    if (communicator.rank() == 0 && events.ready)
      events.ready(result.parameters,
                   gemm_rate(device, precision) * static_cast<double>(communicator.size()));
    result.end = trainer.run();
    if (communicator.rank() == 0 && result.end == Trainer::End::kDone) {
      save_model(folder / "model", model, &tokenizer);
    }
    return result;
  });
}

bool is_pretraining_run(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  if (!std::filesystem::is_regular_file(path)) return false;
  const auto config = try_parse_json(read_file(path, kConfigFile));
  // Runs on images have "augment", those on recall have no "data".
  return config.is_object() && config.contains("train") && config.contains("model") &&
         config.contains("data") && !config.contains("augment");
}

PretrainOptions options_of_run(const std::filesystem::path& folder) {
  auto config = config_of_run(folder);
  add_missing(config, pretrain_rules().older);
  PretrainOptions options;
  parse_yaml(options, config.dump(), (folder / "config.json").string());
  return options;
}

std::unique_ptr<Documents> open_validation(const DataOptions& data, const Tokenizer& tokenizer) {
  return open_documents(data.validation, data, Split::kValidation, tokenizer);
}

}  // namespace hydramix
