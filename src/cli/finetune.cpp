// SPDX-License-Identifier: Apache-2.0
// hydramix finetune: a pretrained encoder learns from a user's own file, or a task of GLUE.
#include <cstdio>

#include "base/formatted.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/metrics_table.h"
#include "cli/training_progress.h"
#include "train/finetune.h"

namespace hydramix {
namespace {

int run_finetune(const FinetuneOptions& given) {
  keep_memory_mapped();
  const auto options = completed(given);
  FinetuneResult result;
  {
    auto events = training_progress(options.task.empty() ? "finetune" : options.task);
    events.evaluation = [message = events.message](int64_t step,
                                                   const nlohmann::ordered_json& evaluation) {
      message(formatted("step %lld: loss %.4f, score %s", step, evaluation.at("loss").get<double>(),
                        metric_text("score", evaluation.at("score").get<double>())));
    };
    std::fprintf(stderr, "%s from %s: %lld epochs, batch %lld, rate %g, length %lld; %s\n",
                 options.task.empty() ? options.data.c_str() : options.task.c_str(),
                 options.model.c_str(), static_cast<long long>(options.epochs),
                 static_cast<long long>(options.batch), options.rate,
                 static_cast<long long>(options.max_length), options.out.c_str());
    result = finetune(options, events);
  }
  if (result.end == Trainer::End::kInterrupted) return stopped_by_signal(options.out);
  if (!result.result.is_null()) {  // rank 0 has it
    std::printf("%s, %lld parameters, seed %lld\n",
                result.result.at("task").get<std::string>().c_str(),
                static_cast<long long>(result.result.at("parameters").get<int64_t>()),
                static_cast<long long>(options.seed));
    std::fputs(metrics_table(result.result.at("metrics"), "  ").c_str(), stdout);
    if (result.result.contains("dev"))
      std::printf("evaluated on %s\n", result.result.at("dev").get<std::string>().c_str());
    std::printf("model: %s/model\n", options.out.c_str());
  }
  return 0;
}

}  // namespace

Command finetune_command() {
  return make_command<FinetuneOptions>(
      "finetune", "train a pretrained encoder on your own file, or on a task of GLUE", run_finetune,
      "Examples:\n"
      "  hydramix finetune runs/hydra --data reviews.tsv --text review --label stars\n"
      "  hydramix finetune runs/hydra --data posts.jsonl --task labels --label topics --dev "
      "dev.jsonl\n"
      "  hydramix finetune runs/hydra --data train.conll --task tokens --patience 3\n"
      "  hydramix finetune runs/hydra --data questions.csv --task pairs --text asked --pair "
      "answer\n"
      "  hydramix finetune runs/hydra --task MRPC --data glue --out runs/mrpc\n"
      "Classes, labels and tags are found in the data. The model is OUT/model: hydramix predict "
      "answers with it, and hydramix embed for pairs. For a task of GLUE it reads "
      "DATA/TASK/train.tsv and dev.tsv as GLUE distributes them, and test.tsv if it exists; "
      "predictions for it go to OUT/predictions, ready to be submitted. The same command "
      "continues a stopped run; a complete one is shown again.");
}

}  // namespace hydramix
