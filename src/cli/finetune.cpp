// SPDX-License-Identifier: Apache-2.0
// hydramix finetune: a pretrained encoder learns a task of GLUE.
#include <cstdio>

#include "base/formatted.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/training_progress.h"
#include "train/finetune.h"

namespace hydramix {
namespace {

void print_metrics(const nlohmann::ordered_json& metrics, const std::string& indent) {
  for (const auto& [name, value] : metrics.items()) {
    if (value.is_number())
      std::printf("%s%-12s %8.4f\n", indent.c_str(), name.c_str(), value.get<double>());
    if (!value.is_object()) continue;
    for (const auto& [part, its] : value.items()) {
      std::printf("%s%s\n", indent.c_str(), part.c_str());
      print_metrics(its, indent + "  ");
    }
  }
}

int run_finetune(const FinetuneOptions& given) {
  keep_memory_mapped();
  const auto options = completed(given);
  FinetuneResult result;
  {
    auto events = training_progress(options.task);
    events.evaluation = [message = events.message](int64_t step,
                                                   const nlohmann::ordered_json& evaluation) {
      message(formatted("step %lld: loss %.4f, score %.2f", step,
                        evaluation.at("loss").get<double>(),
                        100 * evaluation.at("score").get<double>()));
    };
    std::fprintf(stderr, "%s from %s: %lld epochs, batch %lld, rate %g, length %lld; %s\n",
                 options.task.c_str(), options.model.c_str(),
                 static_cast<long long>(options.epochs), static_cast<long long>(options.batch),
                 options.rate, static_cast<long long>(options.max_length), options.out.c_str());
    result = finetune(options, events);
  }
  if (result.end == Trainer::End::kInterrupted) return stopped_by_signal(options.out);
  if (!result.result.is_null()) {  // rank 0 has it
    std::printf("%s, %lld parameters, seed %lld\n", options.task.c_str(),
                static_cast<long long>(result.result.at("parameters").get<int64_t>()),
                static_cast<long long>(options.seed));
    print_metrics(result.result.at("metrics"), "  ");
    std::printf("model: %s/model\n", options.out.c_str());
  }
  return 0;
}

}  // namespace

Command finetune_command() {
  return make_command<FinetuneOptions>(
      "finetune", "train a pretrained encoder on a task of GLUE", run_finetune,
      "Examples:\n"
      "  hydramix finetune --model runs/hydra --task MRPC --data glue --out runs/mrpc\n"
      "  hydramix finetune --model runs/mnli --task RTE --data glue --recipe m2 --seed 3\n"
      "Reads DATA/TASK/train.tsv and dev.tsv as GLUE distributes them, and test.tsv if it exists; "
      "predictions for it go to OUT/predictions, ready to be submitted. The same command continues "
      "a stopped run; a complete one is shown again.");
}

}  // namespace hydramix
