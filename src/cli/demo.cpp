// SPDX-License-Identifier: Apache-2.0
// hydramix demo: three small encoders that differ only in the mixer learn the built-in language.
// Prints a table of what each can predict and a few filled masks, fine-tunes one encoder, and
// writes an HTML page.
#include <cstdio>

#include "base/formatted.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/demo_examples.h"
#include "cli/demo_report.h"
#include "cli/demo_task.h"
#include "cli/training_progress.h"
#include "train/metrics.h"
#include "train/pretrain.h"
#include "train/tiny_model.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

struct DemoOptions {
  std::string out = "runs/demo";
  int64_t steps = 800;
  int64_t batch = 32;
  int64_t seed = 1;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("out", self.out, Required{}, "folder of the runs and of report.html");
    v("steps", self.steps, Range{1, 1 << 20}, "training steps of each model");
    v("batch", self.batch, Range{1, 4096}, "documents per step");
    v("seed", self.seed, Range{0, 1LL << 53},
      "seed of the weights, the order of the data and the masks");
  }
};

struct Contender {
  std::string name, summary, mixer;
  int64_t headdim, positions, d_state, qk_dim;
};

// All have nearly the same number of parameters: attention spends on queries and keys what Hydra
// spends on its state. Attention alone ignores order, so it gets positions, as in BERT. The
// convolution of a causal mixer is causal too.
const std::vector<Contender>& contenders() {
  static const std::vector<Contender> all{
      {"hydra", "quasiseparable: both directions, linear in the length", "hydra", 32, 0, 16, 16},
      {"mamba", "semiseparable: left to right, linear in the length", "semiseparable", 32, 0, 48,
       16},
      {"attention", "softmax(Q K^T): both directions, quadratic in the length", "attention_dd", 64,
       128, 16, 12}};
  return all;
}

// The recipe tiny, shorter and with the contender's mixer.
PretrainOptions options_of(const Contender& contender, const DemoOptions& demo) {
  auto options = tiny_pretraining();
  options.out = (std::filesystem::path(demo.out) / contender.name).string();
  options.device = "cpu";
  options.model.positions = contender.positions;
  auto& block = options.model.block;
  block.mixer = contender.mixer;
  block.headdim = contender.headdim;
  block.mixer_options.d_state = contender.d_state;
  block.mixer_options.qk_dim = contender.qk_dim;
  block.mixer_options.max_length = 128;
  options.data.evaluation_documents = 500;
  auto& train = options.train;
  train.steps = demo.steps;
  train.batch = train.micro_batch = demo.batch;
  train.seed = demo.seed;
  train.log_every = 10;
  train.evaluate_every = train.checkpoint_every = demo.steps;
  return options;
}

DemoModel train(const Contender& contender, const DemoOptions& demo) {
  const auto options = options_of(contender, demo);
  DemoModel model;
  model.name = contender.name;
  model.summary = contender.summary;
  PretrainEvents events;
  static_cast<TrainEvents&>(events) = training_progress("  " + contender.name);
  const auto result = pretrain(options, events);
  if (result.end == Trainer::End::kInterrupted) return model;
  model.parameters = result.parameters;
  model.evaluation = result.evaluation;

  // The file covers all starts of the run, if it was interrupted.
  double rates = 0, count = 0;
  read_metrics(
      std::filesystem::path(options.out) / "metrics.jsonl",
      [&](const std::string&, const nlohmann::json& object) {
        if (!object.contains("loss") || !object["loss"].is_number()) return;  // a skipped step
        model.losses.emplace_back(object["step"].get<double>(), object["loss"].get<double>());
        const auto rate = object.find("tokens_per_second");
        if (rate == object.end() || !rate->is_number()) return;
        rates += rate->get<double>();
        ++count;
      },
      [](const std::string& warning) { std::fprintf(stderr, "%s\n", warning.c_str()); });
  model.tokens_per_second = rates / std::max(count, 1.0);
  return model;
}

void print_table(const std::vector<DemoModel>& models) {
  std::printf("\n  %-16s %10s %9s %6s", "", "parameters", "tokens/s", "loss");
  for (const auto& [kind, head] : demo_columns()) std::printf(" %14s", head.c_str());
  std::printf("\n");
  for (const auto& model : models) {
    std::printf("  %-16s %10lld %9.0f %6.3f", model.name.c_str(),
                static_cast<long long>(model.parameters), model.tokens_per_second,
                model.evaluation.at("loss").get<double>());
    for (const auto& [kind, head] : demo_columns())
      std::printf(" %12.1f %%",
                  100 * model.evaluation.at("kinds").at(kind).at("accuracy").get<double>());
    std::printf("\n");
  }
  std::printf("  %-16s %10s %9s %6s", "expected ceiling", "", "", "");
  for (const auto& [kind, head] : demo_columns())
    std::printf(
        " %12.1f %%",
        100 * models.front().evaluation.at("kinds").at(kind).at("achievable").get<double>());
  std::printf("\n\n");
}

void print_fills(const std::vector<DemoFill>& fills, const std::vector<DemoModel>& models) {
  for (const auto& fill : fills) {
    std::printf("  %s\n    ", fill.text.c_str());
    for (std::size_t i = 0; i < models.size(); ++i)
      std::printf("%s%s: %s%s", i > 0 ? "   " : "", models[i].name.c_str(), fill.answers[i].c_str(),
                  fill.answers[i] == fill.right ? "" : " (wrong)");
    std::printf("   [%s]\n", fill.kind.c_str());
  }
}

int demo(const DemoOptions& options) {
  keep_memory_mapped();
  std::printf(
      "Three encoders of two layers learn a made-up language by filling in masked words.\n");
  std::fflush(stdout);
  const Interrupt interrupt;  // covers everything, so that a signal between two runs is not lost
  DemoReport report;
  std::vector<TrainedModel> trained;
  for (const auto& contender : contenders()) {
    auto model = train(contender, options);
    if (model.parameters == 0 || Interrupt::signal() != 0) return stopped_by_signal(options.out);
    trained.push_back(
        open_trained_model(std::filesystem::path(options.out) / contender.name / "model"));
    add_matrices(model, trained.back());
    report.models.push_back(std::move(model));
  }
  report.fills = fill_masks(trained);
  report.command = formatted("hydramix demo --steps %lld --batch %lld --seed %lld", options.steps,
                             options.batch, options.seed);
  print_table(report.models);
  print_fills(report.fills, report.models);
  std::printf("\nThe pretrained hydra learns to judge sentences.\n");
  std::fflush(stdout);
  const std::filesystem::path out = options.out;
  const auto task = finetune_demo(out / "hydra", out, options.seed);
  if (!task) return stopped_by_signal(options.out);
  report.task = *task;
  std::printf("  %s (%s): %s %.1f %%, by chance %.1f %%\n", task->name.c_str(),
              task->question.c_str(), task->metric.c_str(), 100 * task->value, 100 * task->chance);
  const auto page = out / "report.html";
  write_demo_report(page, report);
  std::printf(
      "\nCurves and learned matrices: %s\n"
      "Next: hydramix fill-mask --model %s/hydra \"before [MASK] left , anna was sad .\"; "
      "hydramix pretrain recipes/tiny.yaml\n",
      page.c_str(), options.out.c_str());
  return 0;
}

}  // namespace

Command demo_command() {
  return make_command<DemoOptions>(
      "demo", "train three small encoders on a made-up language and compare what they learn", demo,
      "Training takes one to two and a half minutes on two cores. In a fresh clone ./hydramix "
      "first "
      "builds the command, in about six. A stopped demo continues; a complete one is shown again. "
      "To "
      "train again, or with other options, choose another --out.");
}

}  // namespace hydramix
