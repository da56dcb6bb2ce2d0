// SPDX-License-Identifier: Apache-2.0
// hydramix pretrain RECIPE.yaml: masked-language-model pretraining, on one process or many.
#include <cstdio>
#include <memory>

#include "base/counted.h"
#include "base/formatted.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/evaluation_table.h"
#include "cli/progress.h"
#include "cli/training_progress.h"
#include "train/pretrain.h"

namespace hydramix {
namespace {

int run_pretrain(const PretrainOptions& options) {
  keep_memory_mapped();
  std::unique_ptr<Progress> progress;
  double gemm = 0;
  PretrainEvents events;
  events.message = [&](const std::string& message) {
    if (progress)
      progress->message(message);
    else
      std::fprintf(stderr, "%s\n", message.c_str());
  };
  events.building = [&](int64_t parameters) {
    std::fprintf(stderr, "building %s: %.1f M parameters in %s of d_model %lld\n",
                 options.model.block.mixer.c_str(), static_cast<double>(parameters) / 1e6,
                 counted(options.model.layers, "layer").c_str(),
                 static_cast<long long>(options.model.block.d_model));
  };
  events.ready = [&](int64_t, double rate) {
    gemm = rate;
    std::fprintf(stderr, "%s of %s; %s\n", counted(options.train.steps, "step").c_str(),
                 counted(options.train.batch, "sequence").c_str(), options.out.c_str());
  };
  events.started = [&](int64_t step) {
    progress = std::make_unique<Progress>("pretrain", options.train.steps, "steps", 1, step);
  };
  events.micro_batch = [&](const MicroBatchReport& report) {
    progress->within_step(micro_batch_note(report));
  };
  events.step = [&](const StepReport& report) {
    auto notes = training_notes(report);
    notes.push_back(
        formatted("%.0f %% of GEMM", 100 * report.flops_per_second / std::max(gemm, 1.0)));
    progress->advance(std::move(notes));
  };
  events.evaluation = [&](int64_t step, const nlohmann::ordered_json& evaluation) {
    progress->message(formatted("step %lld: evaluation loss %.4f, accuracy %.2f %%", step,
                                evaluation.at("loss").get<double>(),
                                100 * evaluation.at("accuracy").get<double>()));
  };
  const PretrainResult result = pretrain(options, events);
  progress.reset();
  if (result.end == Trainer::End::kInterrupted) return stopped_by_signal(options.out);
  if (!result.evaluation.is_null()) {
    print_evaluation(result.evaluation);
    std::printf("model: %s/model\n", options.out.c_str());
  }
  return 0;
}

}  // namespace

Command pretrain_command() {
  auto command = make_command<PretrainOptions>(
      "pretrain", "train an encoder by masked-language modelling", run_pretrain,
      "Examples:\n"
      "  hydramix pretrain recipes/tiny.yaml\n"
      "  hydramix pretrain recipes/table4/hydra.yaml --set data.train=c4/train --set "
      "data.validation=c4/validation --set data.vocab=vocab.txt --out runs/hydra\n"
      "  torchrun --no-python --nproc-per-node 8 hydramix pretrain recipes/table4/hydra.yaml ...\n"
      "The same command continues a run that was stopped or killed, or that lost its machine.");
  command.config_argument = "RECIPE";
  command.needs_words = true;
  return command;
}

}  // namespace hydramix
