// SPDX-License-Identifier: Apache-2.0
#include "train/glue_benchmark.h"

#include <algorithm>

#include "base/atomic_file.h"
#include "base/interrupt.h"
#include "base/json_checksum.h"
#include "base/spelling.h"
#include "dist/launch_environment.h"
#include "glue/results.h"
#include "hydramix/error.h"
#include "models/device.h"
#include "train/run_folder.h"
#include "train/tiny_model.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const std::string kFirstTask = "MNLI";

bool starts_from_first(const SentenceTask& task) {
  return task.name == "RTE" || task.name == "MRPC" || task.name == "STS-B";
}

// The runs of a call, checked before any of them starts.
struct BenchmarkPlan {
  std::vector<const SentenceTask*> tasks;  // MNLI first
  std::vector<Json> files;                 // fingerprints of each task's files
  std::vector<std::string> skipped, missing_files;
  std::vector<int64_t> seeds;
  bool from_mnli = false;

  bool makes_mnli() const { return tasks.front()->name == kFirstTask; }
};

std::vector<const SentenceTask*> tasks_asked_for(const GlueOptions& options) {
  std::vector<const SentenceTask*> tasks;
  const auto add = [&](const SentenceTask& task) {
    if (std::find(tasks.begin(), tasks.end(), &task) == tasks.end()) tasks.push_back(&task);
  };
  for (const auto& name : options.tasks) add(sentence_task(name));
  if (options.tasks.empty())
    for (const auto& task : sentence_tasks())
      if (task.of_the_paper) add(task);
  std::stable_partition(tasks.begin(), tasks.end(),
                        [](const auto* t) { return t->name == kFirstTask; });
  return tasks;
}

// The first missing file of the task; empty if none is missing.
fs::path missing_file(const SentenceTask& task, const fs::path& data) {
  std::vector<std::string> parts{"train"};
  parts.insert(parts.end(), task.dev.begin(), task.dev.end());
  for (const auto& part : parts)
    if (auto path = data / task.name / (part + ".tsv"); !fs::exists(path)) return path;
  return {};
}

fs::path run_folder(const GlueOptions& options, const std::string& task, int64_t seed) {
  return fs::path(options.out) / task / ("seed-" + std::to_string(seed));
}

FinetuneOptions run_options(const GlueOptions& options, const BenchmarkPlan& plan,
                            const SentenceTask& task, int64_t seed, const std::string& model) {
  FinetuneOptions run;
  run.model = plan.from_mnli && starts_from_first(task)
                  ? run_folder(options, kFirstTask, seed).string()
                  : model;
  run.task = task.name;
  run.data = options.data;
  run.out = run_folder(options, task.name, seed).string();
  run.recipe = options.recipe;
  run.max_length = options.max_length;
  run.micro_batch = options.micro_batch;
  run.pooling = options.pooling;
  run.seed = seed;
  run.device = options.device;
  run.precision = options.precision;
  run.timeout = options.timeout;
  return run;
}

BenchmarkPlan make_plan(const GlueOptions& options) {
  HYDRAMIX_CHECK_USAGE(!options.model.empty() || options.recipe == "tiny",
                       "glue: which model? Give --model, the folder of a pretrained model or run "
                       "(hydramix pretrain). Only --recipe tiny makes one by itself.");
  HYDRAMIX_CHECK(fs::is_directory(options.data), options.data,
                 ": is no folder; expected that of GLUE, with a folder for each task. Give --data, "
                 "or make files of the built-in language: hydramix make-data glue --out ",
                 options.data, ".");
  BenchmarkPlan plan;
  for (const auto* task : tasks_asked_for(options)) {
    const auto missing = missing_file(*task, options.data);
    if (missing.empty()) {
      plan.tasks.push_back(task);
    } else {
      plan.skipped.push_back(task->name);
      plan.missing_files.push_back(missing.string());
    }
  }
  HYDRAMIX_CHECK(plan.skipped.empty() || options.skip_missing, options.data, ": not all files of ",
                 join(plan.skipped), " are there: ", join(plan.missing_files),
                 " is missing. Put them there, name other --tasks, or ",
                 "leave these out with --skip-missing.");
  HYDRAMIX_CHECK(!plan.tasks.empty(), options.data, ": has no files of any of the tasks.");
  const int64_t count = options.seeds > 0 ? options.seeds : options.recipe == "tiny" ? 1 : 5;
  for (int64_t i = 0; i < count; ++i) plan.seeds.push_back(options.seed + i);
  for (const auto* task : plan.tasks) {
    completed(run_options(options, plan, *task, plan.seeds.front(), options.model));  // may throw
    plan.files.push_back(check_task_files(*task, options.data));
  }
  plan.from_mnli =
      options.start == "mnli" && std::any_of(plan.tasks.begin(), plan.tasks.end(),
                                             [](const auto* t) { return starts_from_first(*t); });
  // The MNLI classifiers exist already, or this call trains them.
  const bool made =
      plan.makes_mnli() || std::all_of(plan.seeds.begin(), plan.seeds.end(), [&](int64_t seed) {
        return fs::exists(run_folder(options, kFirstTask, seed) / "result.json");
      });
  HYDRAMIX_CHECK_USAGE(!plan.from_mnli || made,
                       "glue: RTE, MRPC and STS-B start from an MNLI classifier, and MNLI is ",
                       plan.skipped.empty() || plan.skipped.front() != kFirstTask
                           ? "not among the tasks"
                           : "left out",
                       ". Add it, or give --start pretrained.");
  return plan;
}

// Whether the folder holds a fine-tuning run that started from this model.
bool began_from(const fs::path& folder, const StartInfo& start) {
  const auto data = data_of_run(folder);
  return data.contains("model") && data["model"] == start.fingerprints.at("model");
}

// Finds errors that would otherwise occur only at a task's turn: a model that does not fit the
// task, a folder that holds another run, an MNLI classifier made with other options.
void check_runs(const GlueOptions& options, const BenchmarkPlan& plan, const std::string& model,
                const StartInfo& start) {
  for (std::size_t t = 0; t < plan.tasks.size(); ++t) {
    const auto& task = *plan.tasks[t];
    const bool from_mnli = plan.from_mnli && starts_from_first(task);
    Json data = plan.files[t];
    if (!from_mnli) data.update(start.fingerprints);
    for (const int64_t seed : plan.seeds) {
      const auto run = run_options(options, plan, task, seed, model);
      check_start(run, start.encoder, launch_environment().size);
      check_out(run, data);
      HYDRAMIX_CHECK_USAGE(!from_mnli || !began_from(run.out, start), run.out,
                           ": holds a run that began from the model itself, not from its MNLI "
                           "classifier. Give --start pretrained to have it again, or choose "
                           "another --out.");
    }
  }
  if (plan.from_mnli && !plan.makes_mnli())
    for (const int64_t seed : plan.seeds)
      check_out(run_options(options, plan, sentence_task(kFirstTask), seed, model),
                start.fingerprints);
}

// Whether any rank got a signal; then all ranks stop.
bool any_signal(Communicator& communicator, torch::Device device) {
  auto signals = torch::full({1}, Interrupt::signal() != 0 ? 1.0 : 0.0, torch::kFloat64).to(device);
  communicator.sum(signals);
  return signals.item<double>() > 0;
}

}  // namespace

GlueResult run_glue(const GlueOptions& options, const GlueEvents& events) {
  validate(options);
  const Interrupt interrupt;  // so that a signal between two runs is not lost
  const BenchmarkPlan plan = make_plan(options);
  if (launch_environment().rank == 0 && events.message)
    for (std::size_t i = 0; i < plan.skipped.size(); ++i)
      events.message(concat(plan.skipped[i], ": left out, ", plan.missing_files[i], " is missing"));
  const auto device = choose_device(options.device, launch_environment().local_rank);
  std::string model = options.model;
  GlueResult outcome;
  const auto events_of = [&](const std::string& name, int64_t number, int64_t of) {
    return events.run ? events.run(name, number, of) : TrainEvents{};
  };
  if (model.empty()) {
    HYDRAMIX_CHECK_USAGE(launch_environment().size == 1,
                         "glue: the recipe tiny makes its model in one process. Start one, or give "
                         "--model.");
    auto tiny = tiny_pretraining();
    tiny.out = model = (fs::path(options.out) / "pretrain").string();
    tiny.device = options.device;
    tiny.precision = options.precision;
    PretrainEvents pretraining;
    static_cast<TrainEvents&>(pretraining) = events_of("pretrain", 1, 1);
    outcome.end = pretrain(tiny, pretraining).end;
    if (Interrupt::signal() != 0) outcome.end = Trainer::End::kInterrupted;
    if (outcome.end == Trainer::End::kInterrupted) return outcome;
  }
  const auto start = start_info(model);
  check_runs(options, plan, model, start);

  return among_ranks({options.timeout}, device, [&](Communicator& communicator) {
    Json tasks, parameters;
    for (const auto* task : plan.tasks) {
      std::vector<Json> runs;
      for (std::size_t i = 0; i < plan.seeds.size(); ++i) {
        const auto one = finetune(
            run_options(options, plan, *task, plan.seeds[i], model), communicator, device,
            communicator.rank() == 0
                ? events_of(task->name, static_cast<int64_t>(i) + 1, std::ssize(plan.seeds))
                : TrainEvents{});
        if (one.end == Trainer::End::kInterrupted || any_signal(communicator, device)) {
          outcome.end = Trainer::End::kInterrupted;
          return outcome;
        }
        if (communicator.rank() != 0) continue;
        parameters = one.result.at("parameters");
        if (events.finished) events.finished(task->name, one.result);
        runs.push_back(one.result);
      }
      if (communicator.rank() != 0) continue;
      tasks[task->name] = task_results(*task, runs);
    }
    if (communicator.rank() == 0) {
      const auto path = fs::path(options.out) / "results.json";
      outcome.results = merged_results({{"model", model},
                                        {"fingerprint", start.fingerprints.at("model")},
                                        {"data", fs::weakly_canonical(options.data).string()},
                                        {"recipe", options.recipe},
                                        {"parameters", parameters},
                                        {"seeds", plan.seeds},
                                        {"start", options.start},
                                        {"pooling", options.pooling},
                                        {"max_length", options.max_length},
                                        {"precision", options.precision},
                                        {"sts_score", "spearman"},
                                        {"skipped", plan.skipped}},
                                       tasks, path, events.message);
      auto written = outcome.results;
      set_json_checksum(written);
      write_file(path, written.dump(2) + "\n");
    }
    return outcome;
  });
}

}  // namespace hydramix
