// SPDX-License-Identifier: Apache-2.0
#include "train/finetune.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/atomic_file.h"
#include "base/counted.h"
#include "base/json_checksum.h"
#include "base/json_reader.h"
#include "base/spelling.h"
#include "dist/launch_environment.h"
#include "glue/submission.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "hydramix/registry.h"
#include "models/device.h"
#include "train/example_training.h"
#include "train/finetune_start.h"
#include "train/lesson.h"
#include "train/run_folder.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

OwnDataOptions own_data_options(const FinetuneOptions& options) {
  return {options.data,   options.dev,
          options.task,   {options.text, options.pair, options.label, options.separator},
          options.format, options.dev_share,
          options.seed};
}

std::string pooling_of(const FinetuneOptions& options, const TextTask& task,
                       const BertOptions& model) {
  if (task.kind == LabelKind::kTokens) return "tokens";
  if (options.pooling != "auto") return options.pooling;
  const bool mean = task.kind == LabelKind::kPairs ||
                    mixer_info(model.block.mixer, model.block.mixer_options).causal;
  return mean ? "mean" : "cls";
}

// Throws unless the encoder can process the task's examples.
void check_encoder(const FinetuneOptions& options, const BertOptions& model) {
  const bool pairs = is_glue(options)
                         ? sentence_task(options.task).pairs
                         : !options.pair.empty() && options.task != kind_name(LabelKind::kPairs);
  HYDRAMIX_CHECK(!pairs || model.type_vocab >= 2, options.model,
                 ": tells no first sentence from a second (type_vocab is 1), and ",
                 is_glue(options) ? options.task : "the task",
                 " has pairs. Take a model with type_vocab 2.");
  const int64_t longest = longest_sequence(model);
  HYDRAMIX_CHECK_USAGE(longest == 0 || options.max_length <= longest,
                       "max_length: ", options.max_length, " is more than the ", longest,
                       " tokens that ", options.model, " (", model.block.mixer,
                       ") was made for. Give --max-length ", longest, ".");
}

void check_batch(const FinetuneOptions& options, int64_t ranks) {
  HYDRAMIX_CHECK_USAGE(
      options.batch % ranks == 0, "batch: the ", options.batch, " examples of ", options.task,
      " cannot be divided among ", ranks,
      " ranks. Start a number of ranks that divides them, or give finetune another "
      "--batch.");
  // The examples of a micro-batch are compared with each other, so it must not depend on the ranks.
  HYDRAMIX_CHECK_USAGE(options.task != kind_name(LabelKind::kPairs) ||
                           options.batch / ranks % options.micro_batch == 0,
                       "micro_batch: the ", options.batch / ranks,
                       " pairs of a step and rank are no "
                       "multiple of ",
                       options.micro_batch,
                       ", and the pairs of a micro-batch are compared with each other. Give a "
                       "--micro-batch that divides them, or the same --batch.");
}

// Gathers the predictions of all ranks on every rank.
std::vector<double> gathered(const std::vector<double>& share, Communicator& communicator,
                             torch::Device device) {
  auto all = torch::tensor(share, torch::kFloat64).to(device);
  communicator.sum(all);
  all = all.cpu();
  return {all.data_ptr<double>(), all.data_ptr<double>() + all.numel()};
}

// The result of a run that is complete.
Json read_result(const fs::path& path) {
  auto result = try_parse_json(read_file(path, kResultFile));
  bool sound = result.is_object();
  for (const char* key : {"task", "seed", "parameters", "steps", "seconds", "metrics"})
    sound = sound && result.contains(key);
  HYDRAMIX_CHECK(sound && result["metrics"].contains("score"), path.string(),
                 ": is not the result of a run. Remove it, and the run is repeated.");
  check_json_checksum(result, path.string(),
                      "The file was changed or damaged. Remove it, and the run is repeated.");
  result.erase(kJsonChecksum);
  return result;
}

// The most steps between checkpoints, which a crash can lose.
constexpr int64_t kCheckpointSteps = 500;

const RunRules& finetune_rules() {
  static const RunRules rules{
      {"out", "data", "dev", "model", "device", "profile", "micro_batch", "timeout", "unfinished"},
      Json::parse(R"({"decay_rule": "decoupled", "clip": 1.0, "groups": [],
                      "schedule": {"shape": "linear"}, "text": "", "pair": "", "label": "",
                      "separator": ",", "format": "auto", "dev_share": 0.1, "keep": "last",
                      "patience": 0, "temperature": 0.05})")};
  return rules;
}

// Test files of GLUE that came after the run was complete.
void tell_missing_predictions(const FinetuneOptions& options, const TaskFiles& files,
                              const TrainEvents& events) {
  const auto& task = sentence_task(options.task);
  for (std::size_t i = 0; i < files.test.size(); ++i) {
    const auto name = submission_name(task, files.test_parts[i]);
    if (!fs::exists(fs::path(options.out) / "predictions" / name) && events.message)
      events.message(concat(files.test[i].path.string(), ": was not there when ", options.out,
                            " was trained. For predictions: hydramix predict ", options.out, " ",
                            files.test[i].path.string(), " --out ", name));
  }
}

void write_predictions(const FinetuneOptions& options, const TaskFiles& files,
                       ExampleTraining& training, const Tokenizer& tokenizer,
                       Communicator& communicator, torch::Device device) {
  const auto& task = sentence_task(options.task);
  const auto folder = fs::path(options.out) / "predictions";
  for (std::size_t i = 0; i < files.test.size(); ++i) {
    const auto& rows = files.test[i].rows;
    const auto encoded = encode_sentences(task, rows, tokenizer, options.max_length);
    const auto predicted = gathered(
        training.predict(encoded, communicator.rank(), communicator.size()), communicator, device);
    if (communicator.rank() != 0) continue;
    fs::create_directories(folder);
    write_file(folder / submission_name(task, files.test_parts[i]),
               submission_text(task, rows, predicted));
  }
}

}  // namespace

bool is_glue(const FinetuneOptions& options) {
  const auto& kinds = label_kinds();
  if (std::find(kinds.begin(), kinds.end(), options.task) != kinds.end()) return false;
  if (!options.task.empty()) return true;
  HYDRAMIX_CHECK_USAGE(!fs::is_directory(options.data), "finetune: ", options.data,
                       " is a folder, as of GLUE. Which of its tasks? Give --task, as MRPC; for "
                       "your own data give a file.");
  HYDRAMIX_CHECK_USAGE(options.data != FinetuneOptions{}.data,
                       "finetune: learn from what? Give "
                       "--data, your own file, or --task, a task of GLUE.");
  return false;
}

FinetuneOptions completed(FinetuneOptions options) {
  const bool glue = is_glue(options);
  if (glue) {
    options.task = sentence_task(options.task).name;
    for (const auto& [flag, value] :
         {std::pair{"--dev", &options.dev}, std::pair{"--text", &options.text},
          std::pair{"--pair", &options.pair}, std::pair{"--label", &options.label}})
      HYDRAMIX_CHECK_USAGE(value->empty(), flag, ": ", options.task,
                           " has files and columns of its own. Leave it out; for your own file, "
                           "give --task ",
                           join(label_kinds()), " or none.");
  } else if (!options.task.empty()) {
    static_cast<void>(label_kind(options.task));  // may throw
  }
  const auto recipe = glue_recipe(options.recipe, glue ? options.task : kOwnFiles);
  if (options.epochs == 0) options.epochs = recipe.epochs;
  if (options.batch == 0) options.batch = recipe.batch;
  if (options.max_length == 0) options.max_length = recipe.max_length;
  if (options.rate == 0) options.rate = recipe.rate;
  if (options.decay == -1) options.decay = recipe.decay;
  if (options.decay_rule == "recipe") options.decay_rule = recipe.decay_rule;
  if (options.clip == 0) options.clip = recipe.clip;
  if (options.pooling == "auto") options.pooling = recipe.pooling;
  if (options.groups.empty()) options.groups = recipe.groups;
  if (options.keep == "auto") options.keep = glue ? "last" : "best";
  HYDRAMIX_CHECK_USAGE(options.decay >= 0, "decay: ", options.decay,
                       " would make weights grow; expected 0 or more, or -1 for the recipe's.");
  HYDRAMIX_CHECK_USAGE(options.max_length >= 3, "max_length: ", options.max_length,
                       " leaves no room for words: [CLS] and two [SEP] are three tokens. Leave it "
                       "out for the recipe's.");
  return options;
}

TrainOptions train_options(const FinetuneOptions& options, int64_t steps) {
  TrainOptions train;
  train.steps = steps;
  train.batch = options.batch;
  train.micro_batch = options.micro_batch;
  train.seed = options.seed;
  train.optimizer.rate = options.rate;
  train.optimizer.decay = options.decay;
  train.optimizer.decay_rule = options.decay_rule;
  train.optimizer.groups = options.groups;
  train.optimizer.clip = options.clip;
  train.schedule = options.schedule;
  train.evaluate_every = (train.steps + options.epochs - 1) / options.epochs;
  train.checkpoint_every = std::min(train.evaluate_every, kCheckpointSteps);
  train.keep = 1;
  train.patience = options.patience;
  train.timeout = options.timeout;
  train.profile = options.profile;
  return train;
}

Json check_task_files(const SentenceTask& task, const fs::path& data) {
  return read_files(task, data).fingerprints();
}

StartInfo start_info(const std::string& model, bool unfinished) {
  const auto start = open_start(model, unfinished);
  return {start.options, start.fingerprints()};
}

void check_start(const FinetuneOptions& given, const BertOptions& encoder, int64_t ranks) {
  const auto options = completed(given);
  check_batch(options, ranks);
  check_encoder(options, encoder);
}

void check_out(const FinetuneOptions& options, const Json& data) {
  check_same_run(options.out, to_json(completed(options)), finetune_rules(), data);
}

FinetuneResult finetune(const FinetuneOptions& given, Communicator& communicator,
                        torch::Device device, const TrainEvents& events) {
  const auto began = std::chrono::steady_clock::now();
  validate(given);
  auto options = completed(given);
  const bool glue = is_glue(options);
  const auto say = [&](const std::string& message) {
    if (communicator.rank() == 0 && events.message) events.message(message);
  };
  const auto precision = choose_precision(options.precision, device);
  std::optional<TaskFiles> files;
  std::optional<OwnData> own;
  Json data;
  if (glue) {
    files = read_files(sentence_task(options.task), options.data);
    for (const auto* file : files->all())
      if (!file->torn.empty()) say(left_out(file->path, file->torn));
    data = files->fingerprints();
  } else {
    own = read_own_data(own_data_options(options));
    options.task = own->task.name;
    data = {{"train", own->train_fingerprint}, {"dev", own->dev_fingerprint}};
    say(concat(options.data, ": ", own->train.size(), " examples, ", labels_text(own->task),
               "; evaluated on ", own->origin));
  }
  check_batch(options, communicator.size());
  const auto start = open_start(options.model, options.unfinished);
  check_encoder(options, start.options);
  const Lesson lesson =
      glue ? glue_lesson(sentence_task(options.task), *files, start.tokenizer, options.max_length)
           : own_lesson(*own, start.tokenizer, options.max_length);
  const auto& task = lesson.task;
  if (const auto cut = words_cut(lesson); cut > 0)
    say(concat(counted(cut, "word"), " of the development set ", cut == 1 ? "has" : "have",
               " no token within --max-length ", options.max_length, " and ",
               cut == 1 ? "counts" : "count", " as untagged"));

  torch::manual_seed(static_cast<uint64_t>(options.seed));
  // Vectors are compared as embed returns them, so nothing is dropped from them.
  SequenceClassifier model(
      start.options, ClassifierOptions{task.outputs(), pooling_of(options, task, start.options),
                                       task.kind == LabelKind::kPairs ? 0.0 : options.dropout,
                                       options.max_length});
  model->take_encoder(*start.weights);
  check_parameter_groups(*model, options.groups);
  data.update(start.fingerprints());
  communicator.agree("the options", to_json(options).dump());
  communicator.agree("the data", data.dump());

  const fs::path folder = options.out, result_path = folder / "result.json";
  std::unique_ptr<RunFolder> run;
  bool complete = false;
  if (communicator.rank() == 0) {
    run = std::make_unique<RunFolder>(folder);
    run->keep(to_json(options), finetune_rules(), data);
    complete = fs::exists(result_path);
  }
  auto known = torch::full({1}, complete ? 1.0 : 0.0, torch::kFloat64).to(device);
  communicator.broadcast(known);
  FinetuneResult outcome;
  if (known.item<double>() > 0) {
    if (!complete) return outcome;  // rank 0 has it
    outcome.result = read_result(result_path);
    remove_checkpoints(folder / "checkpoints");
    if (glue) tell_missing_predictions(options, *files, events);
    return outcome;
  }

  model->to(device);
  model->set_precision(precision);
  ExampleTraining training(
      model, task, lesson.train, lesson.dev,
      {options.epochs, options.micro_batch, options.seed, device, options.temperature,
       options.keep == "best", glue ? "train.tsv" : fs::path(options.data).filename().string()});
  const TrainOptions train = train_options(options, training.steps(options.batch));
  Json evaluation;
  int64_t steps = 0;
  TrainEvents forwarded = events;
  forwarded.evaluation = [&](int64_t step, const Json& summary) {
    evaluation = summary;
    steps = step;
    if (events.evaluation) events.evaluation(step, summary);
  };
  Trainer trainer(training, train, communicator, folder, forwarded);
  outcome.end = trainer.run();
  if (outcome.end == Trainer::End::kInterrupted) return outcome;
  if (options.keep == "best") evaluation = trainer.take_best();

  if (glue) write_predictions(options, *files, training, start.tokenizer, communicator, device);
  if (communicator.rank() != 0) return outcome;
  if (const auto [scale, shift] = training.objective().scale_and_shift(); scale != 1 || shift != 0)
    model->rescale(scale, shift);
  ClassifierTask about{task.name, task.labels, kind_name(task.kind)};
  if (evaluation.contains("thresholds"))
    about.thresholds = evaluation["thresholds"].get<std::vector<double>>();
  about.pairs = task.pairs && task.kind != LabelKind::kPairs;
  if (own) {
    about.text = own->columns.text, about.pair = own->columns.pair;
    about.label = own->columns.label, about.separator = own->columns.separator;
  }
  save_classifier(folder / "model", model, about, &start.tokenizer);
  int64_t parameters = 0;
  for (const auto& parameter : model->parameters()) parameters += parameter.numel();
  outcome.result = {
      {"task", task.name},
      {"seed", options.seed},
      {"parameters", parameters},
      {"steps", steps},
      {"seconds", std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count()},
      {"metrics", evaluation}};
  if (own) {
    outcome.result["examples"] = own->train.size();
    outcome.result["dev"] = own->origin;
  }
  auto written = outcome.result;
  set_json_checksum(written);
  write_file(result_path, written.dump(2) + "\n");
  remove_checkpoints(folder / "checkpoints");  // the run is complete
  return outcome;
}

FinetuneResult finetune(const FinetuneOptions& options, const TrainEvents& events) {
  const auto device = choose_device(options.device, launch_environment().local_rank);
  return among_ranks({options.timeout}, device, [&](Communicator& communicator) {
    return finetune(options, communicator, device, events);
  });
}

}  // namespace hydramix
