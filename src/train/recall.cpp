// SPDX-License-Identifier: Apache-2.0
#include "train/recall.h"

#include <chrono>
#include <memory>

#include "base/atomic_file.h"
#include "base/json_checksum.h"
#include "base/json_reader.h"
#include "dist/launch_environment.h"
#include "hydramix/error.h"
#include "models/device.h"
#include "models/model_config.h"
#include "ops/graph.h"
#include "train/recall_flops.h"
#include "train/recall_training.h"
#include "train/run_folder.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const RunRules& recall_rules() {
  static const RunRules rules{free_run_keys(), {{"model", later_model_keys()}}};
  return rules;
}

void check_recall_length(const RecallTrainOptions& options) {
  const int64_t length = options.recall.length;
  HYDRAMIX_CHECK_USAGE(options.model.positions == 0 || length <= options.model.positions,
                       "recall.length: ", length, " is more than model.positions, which is ",
                       options.model.positions, ".");
  const int64_t longest = longest_sequence(options.model);
  HYDRAMIX_CHECK_USAGE(longest == 0 || length <= longest, "recall.length: ", length,
                       " is more than model.block.mixer_options.max_length, which is ", longest,
                       "; ", options.model.block.mixer, " takes no longer sequences.");
}

}  // namespace

Json recall_result(const fs::path& folder) {
  const auto path = folder / "result.json";
  if (!fs::exists(path)) return {};
  auto result = try_parse_json(read_file(path, kResultFile));
  bool sound = result.is_object();
  for (const char* key : {"mixer", "length", "seed", "parameters", "flops_per_token", "accuracy"})
    sound = sound && result.contains(key);
  constexpr const char* kAdvice = "Remove it, and the run is repeated.";
  HYDRAMIX_CHECK(sound, path.string(), ": is not the result of a run on recall. ", kAdvice);
  check_json_checksum(result, path.string(), concat("The file was changed or damaged. ", kAdvice));
  result.erase(kJsonChecksum);
  return result;
}

RecallResult train_recall(const RecallTrainOptions& options, const TrainEvents& events) {
  const auto began = std::chrono::steady_clock::now();
  validate(options);
  check_recall_length(options);
  const RecallData data(options.recall, options.model.vocab);
  const auto launch = launch_environment();
  HYDRAMIX_CHECK_USAGE(options.train.batch % launch.size == 0, "train.batch: ", options.train.batch,
                       " sequences cannot be divided among ", launch.size,
                       " ranks. Choose a batch that is a multiple of the number of ranks.");
  const auto device = choose_device(options.device, launch.local_rank);
  const auto precision = choose_precision(options.precision, device);
  // Captured steps need a separate stream, from the first tensor on.
  const OwnStream stream(device);
  torch::manual_seed(static_cast<uint64_t>(options.train.seed));
  BertForMaskedLM model(options.model);
  check_parameter_groups(*model, options.train.optimizer.groups);

  return among_ranks({options.train.timeout}, device, [&](Communicator& communicator) {
    communicator.agree("the options", to_json(options).dump());
    const fs::path folder = options.out;
    std::unique_ptr<RunFolder> run;
    RecallResult outcome;
    if (communicator.rank() == 0) {
      run = std::make_unique<RunFolder>(folder);
      run->keep(to_json(options), recall_rules(), {{"recall", data.fingerprint()}});
      outcome.result = recall_result(folder);
    }
    auto known = torch::full({1}, outcome.result.is_null() ? 0.0 : 1.0, torch::kFloat64).to(device);
    communicator.broadcast(known);
    if (known.item<double>() > 0) {
      if (run) remove_checkpoints(folder / "checkpoints");
      return outcome;
    }

    model->to(device);
    model->set_precision(precision);
    TrainOptions train = options.train;
    train.micro_batch = examples_at_once(train, device, options.recall.length);
    RecallTraining task(model, data,
                        {train.micro_batch, train.seed, device,
                         captures_steps(options.model.block, device, precision, communicator),
                         communicator.rank() == 0 ? events.message : nullptr});
    Json evaluation;
    TrainEvents forwarded = events;
    forwarded.evaluation = [&](int64_t step, const Json& summary) {
      evaluation = summary;
      if (events.evaluation) events.evaluation(step, summary);
    };
    Trainer trainer(task, train, communicator, folder, forwarded);
    outcome.end = trainer.run();
    if (outcome.end == Trainer::End::kInterrupted || communicator.rank() != 0) return outcome;

    int64_t parameters = 0;
    for (const auto& parameter : model->parameters()) parameters += parameter.numel();
    const auto flops = forward_flops_per_token(*model, options.recall.length);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
    outcome.result = {
        {"mixer", options.model.block.mixer}, {"length", options.recall.length},
        {"pairs", options.recall.pairs},      {"seed", options.train.seed},
        {"parameters", parameters},           {"flops_per_token", flops ? Json(*flops) : Json()},
        {"steps", options.train.steps},       {"seconds", seconds.count()},
        {"loss", evaluation.at("loss")},      {"accuracy", evaluation.at("accuracy")}};
    auto written = outcome.result;
    set_json_checksum(written);
    write_file(folder / "result.json", written.dump(2) + "\n");
    remove_checkpoints(folder / "checkpoints");  // the run is complete
    return outcome;
  });
}

}  // namespace hydramix
