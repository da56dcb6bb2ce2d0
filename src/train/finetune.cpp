// SPDX-License-Identifier: Apache-2.0
#include "train/finetune.h"

#include <chrono>

#include "base/atomic_file.h"
#include "base/fnv.h"
#include "base/formatted.h"
#include "base/json_reader.h"
#include "dist/launch_environment.h"
#include "glue/sentences.h"
#include "glue/submission.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "hydramix/registry.h"
#include "hydramix/weights.h"
#include "train/device.h"
#include "train/run_folder.h"
#include "train/sentence_classification.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

fs::path file_of(const SentenceTask& task, const fs::path& data, const std::string& part) {
  return data / task.name / (part + ".tsv");
}

// The task's files, read and checked. Test files have no labels and are optional.
struct TaskFiles {
  SentenceFile train;
  std::vector<SentenceFile> dev, test;  // in the order of task.dev; the existing ones of task.test
  std::vector<std::string> test_parts;

  std::vector<const SentenceFile*> all() const {
    std::vector<const SentenceFile*> list{&train};
    for (const auto* files : {&dev, &test})
      for (const auto& file : *files) list.push_back(&file);
    return list;
  }
  // Fingerprints of the training and dev files; test files may be added later.
  Json fingerprints() const {
    Json all{{"train", train.fingerprint}};
    for (const auto& file : dev) all[file.path.stem().string()] = file.fingerprint;
    return all;
  }
};

TaskFiles read_files(const SentenceTask& task, const fs::path& data) {
  TaskFiles files{read_sentences(task, file_of(task, data, "train"), Labels::kNeeded), {}, {}, {}};
  for (const auto& part : task.dev)
    files.dev.push_back(read_sentences(task, file_of(task, data, part), Labels::kNeeded));
  for (const auto& part : task.test) {
    const auto path = file_of(task, data, part);
    if (!fs::exists(path)) continue;
    files.test.push_back(read_sentences(task, path, Labels::kNone));
    files.test_parts.push_back(part);
  }
  return files;
}

// Fingerprint of all weights, so that a stopped run is not continued with another model.
std::string fingerprint_of(const torch::nn::Module& module) {
  uint64_t hash = kFnvStart;
  for (const auto& [name, weight] : named_weights(module)) {
    const auto w = weight.detach().cpu().contiguous();
    hash = fnv1a(concat(name, " ", w.sizes(), " ", w.dtype()), hash);
    hash = fnv1a({static_cast<const char*>(w.data_ptr()), w.nbytes()}, hash);
  }
  return formatted("%016llx", hash);
}

// The start of fine-tuning: an encoder with its tokenizer.
struct Start {
  BertOptions options;
  std::shared_ptr<torch::nn::Module> weights;
  Tokenizer tokenizer;

  Json fingerprints() const {
    return {{"model", fingerprint_of(*weights)}, {"tokenizer", tokenizer.fingerprint()}};
  }
};

Start open_start(const fs::path& folder) {
  const auto inner = classifier_folder(folder);
  if (!inner.empty()) {
    const auto classifier = load_classifier(inner);
    return {classifier.model->encoder_options(), classifier.model.ptr(),
            Tokenizer::load(inner / "tokenizer.json")};
  }
  const auto trained = open_trained_model(folder);
  return {trained.model->options(), trained.model.ptr(), trained.tokenizer};
}

std::string pooling_of(const FinetuneOptions& options, const BertOptions& model) {
  if (options.pooling != "auto") return options.pooling;
  return mixer_info(model.block.mixer).causal ? "mean" : "cls";
}

// Throws unless the encoder can process the task's examples.
void check_encoder(const FinetuneOptions& options, const BertOptions& model) {
  HYDRAMIX_CHECK(!sentence_task(options.task).pairs || model.type_vocab >= 2, options.model,
                 ": tells no first sentence from a second (type_vocab is 1), and ", options.task,
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
}

// Gathers the predictions of all ranks on every rank.
std::vector<double> gathered(const std::vector<double>& share, Communicator& communicator,
                             torch::Device device) {
  auto all = torch::tensor(share, torch::kFloat64).to(device);
  communicator.sum(all);
  all = all.cpu();
  return {all.data_ptr<double>(), all.data_ptr<double>() + all.numel()};
}

void remove_checkpoints(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    fs::remove(entry.path(), ignored);
  fs::remove(folder, ignored);
}

// The result of a run that is complete.
Json read_result(const fs::path& path) {
  auto result = try_parse_json(read_file(path, kResultFile));
  bool sound = result.is_object();
  for (const char* key : {"task", "seed", "parameters", "steps", "seconds", "metrics"})
    sound = sound && result.contains(key);
  HYDRAMIX_CHECK(sound && result["metrics"].contains("score"), path.string(),
                 ": is not the result of a run. Remove it, and the run is repeated.");
  return result;
}

// The most steps between checkpoints, which a crash can lose.
constexpr int64_t kCheckpointSteps = 500;

const RunRules& finetune_rules() {
  static const RunRules rules{{"out", "data", "model", "device", "micro_batch", "timeout"},
                              Json::parse(R"({"decay_rule": "decoupled", "clip": 1.0, "groups": [],
                      "schedule": {"shape": "linear"}})")};
  return rules;
}

}  // namespace

FinetuneOptions completed(FinetuneOptions options) {
  options.task = sentence_task(options.task).name;
  const auto recipe = glue_recipe(options.recipe, options.task);
  if (options.epochs == 0) options.epochs = recipe.epochs;
  if (options.batch == 0) options.batch = recipe.batch;
  if (options.max_length == 0) options.max_length = recipe.max_length;
  if (options.rate == 0) options.rate = recipe.rate;
  if (options.decay == -1) options.decay = recipe.decay;
  if (options.decay_rule == "recipe") options.decay_rule = recipe.decay_rule;
  if (options.clip == 0) options.clip = recipe.clip;
  if (options.pooling == "auto") options.pooling = recipe.pooling;
  HYDRAMIX_CHECK_USAGE(options.decay >= 0, "decay: ", options.decay,
                       " would make weights grow; expected 0 or more, or -1 for the recipe's.");
  HYDRAMIX_CHECK_USAGE(options.max_length >= 3, "max_length: ", options.max_length,
                       " leaves no room for words: [CLS] and two [SEP] are three tokens. Leave it "
                       "out for the recipe's.");
  return options;
}

Json check_task_files(const SentenceTask& task, const fs::path& data) {
  return read_files(task, data).fingerprints();
}

StartInfo start_info(const std::string& model) {
  const auto start = open_start(model);
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
  const auto options = completed(given);
  const auto& task = sentence_task(options.task);
  check_batch(options, communicator.size());
  const auto precision = choose_precision(options.precision, device);
  const auto files = read_files(task, options.data);
  if (communicator.rank() == 0 && events.message)
    for (const auto* file : files.all())
      if (!file->torn.empty()) events.message(left_out(*file));
  const auto start = open_start(options.model);
  check_encoder(options, start.options);

  torch::manual_seed(static_cast<uint64_t>(options.seed));
  SequenceClassifier model(start.options,
                           ClassifierOptions{task.outputs(), pooling_of(options, start.options),
                                             options.dropout, options.max_length});
  model->take_encoder(*start.weights);
  check_parameter_groups(*model, options.groups);
  Json data = files.fingerprints();
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
    for (std::size_t i = 0; i < files.test.size(); ++i) {
      const auto path = folder / "predictions" / submission_name(task, files.test_parts[i]);
      if (!fs::exists(path) && events.message)
        events.message(concat(files.test[i].path.string(), ": was not there when ", options.out,
                              " was trained. For predictions: hydramix predict ", options.out, " ",
                              files.test[i].path.string(), " --out ", path.filename().string()));
    }
    return outcome;
  }

  const auto encoded = [&](const SentenceFile& file) {
    return encode_sentences(task, file.rows, start.tokenizer, options.max_length);
  };
  std::vector<SentencePart> parts;
  for (std::size_t i = 0; i < task.dev.size(); ++i)
    parts.push_back({task.dev[i], encoded(files.dev[i])});
  model->to(device);
  model->set_precision(precision);
  SentenceClassification classification(
      model, task, encoded(files.train), std::move(parts),
      {options.epochs, options.micro_batch, options.seed, device});
  TrainOptions train;
  train.steps = classification.steps(options.batch);
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
  train.timeout = options.timeout;

  Json evaluation;
  TrainEvents forwarded = events;
  forwarded.evaluation = [&](int64_t step, const Json& summary) {
    evaluation = summary;
    if (events.evaluation) events.evaluation(step, summary);
  };
  outcome.end = Trainer(classification, train, communicator, folder, forwarded).run();
  if (outcome.end == Trainer::End::kInterrupted) return outcome;

  for (std::size_t i = 0; i < files.test.size(); ++i) {
    const auto predicted = gathered(
        classification.predict(encoded(files.test[i]), communicator.rank(), communicator.size()),
        communicator, device);
    if (communicator.rank() != 0) continue;
    fs::create_directories(folder / "predictions");
    write_file(folder / "predictions" / submission_name(task, files.test_parts[i]),
               submission_text(task, files.test[i].rows, predicted));
  }
  if (communicator.rank() != 0) return outcome;
  save_classifier(folder / "model", model, task.name, task.labels);
  start.tokenizer.save(folder / "model" / "tokenizer.json");
  int64_t parameters = 0;
  for (const auto& parameter : model->parameters()) parameters += parameter.numel();
  outcome.result = {
      {"task", task.name},
      {"seed", options.seed},
      {"parameters", parameters},
      {"steps", train.steps},
      {"seconds", std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count()},
      {"metrics", evaluation}};
  write_file(result_path, outcome.result.dump(2) + "\n");
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
