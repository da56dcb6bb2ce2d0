// SPDX-License-Identifier: Apache-2.0
// hydramix train-recall RECIPE.yaml: how well a mixer looks up what a sequence said before.
#include <cstdio>

#include "base/formatted.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/training_progress.h"
#include "train/recall.h"

namespace hydramix {
namespace {

int run_train_recall(const RecallTrainOptions& options) {
  keep_memory_mapped();
  auto events = training_progress("recall");
  events.evaluation = [say = events.message](int64_t step, const nlohmann::ordered_json& summary) {
    say(formatted("step %lld: loss %.4f, accuracy %.2f %%", step, summary.at("loss").get<double>(),
                  100 * summary.at("accuracy").get<double>()));
  };
  const auto outcome = train_recall(options, events);
  events = {};  // ends the progress bar
  if (outcome.end == Trainer::End::kInterrupted) return stopped_by_signal(options.out);
  if (!outcome.result.is_null()) std::printf("%s\n", outcome.result.dump(2).c_str());
  return 0;
}

}  // namespace

Command train_recall_command() {
  auto command = make_command<RecallTrainOptions>(
      "train-recall", "train a model on multi-query associative recall", run_train_recall,
      "Examples:\n"
      "  hydramix train-recall recipes/recall/tiny.yaml --set model.block.mixer=semiseparable\n"
      "  hydramix train-recall recipes/recall/paper.yaml --set recall.length=256 --set "
      "recall.pairs=16\n"
      "The result is the share of queries answered correctly, with the operations per token. "
      "reproduce recall runs it over mixers, state sizes and lengths. The same command continues "
      "a run that was stopped or killed.");
  command.config_argument = "RECIPE";
  command.needs_words = true;
  return command;
}

}  // namespace hydramix
