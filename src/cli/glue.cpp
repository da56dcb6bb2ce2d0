// SPDX-License-Identifier: Apache-2.0
// hydramix glue: the whole benchmark, and its row of the paper's table.
#include <cstdio>

#include "base/formatted.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/training_progress.h"
#include "train/glue_benchmark.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;

// Scores in percent, in the order of the paper's table, with their deviations.
void print_results(const Json& results) {
  std::string head = formatted("%-12s %9s", "", "#Params"), means, deviations, matched;
  std::string aside;  // tasks outside the average
  const bool several = results.at("seeds").size() > 1;
  for (const auto& task : sentence_tasks()) {
    if (!results.at("tasks").contains(task.name)) continue;
    const auto& result = results.at("tasks").at(task.name);
    const double mean = 100 * result.at("mean").get<double>();
    const double deviation = 100 * result.at("deviation").get<double>();
    if (!task.of_the_paper) {
      aside += formatted("%s: %.1f +- %.1f, not in the average\n", task.name, mean, deviation);
      continue;
    }
    head += formatted(" %6s", task.heading);
    means += formatted(" %6.1f", mean);
    deviations += formatted(" %6.1f", deviation);
    if (!result.at("runs").at(0).contains("parts")) continue;
    std::string parts;
    for (const auto& [part, metrics] : result.at("runs").at(0).at("parts").items()) {
      double of_part = 0;
      for (const auto& run : result.at("runs"))
        of_part += run.at("parts").at(part).at("score").get<double>() /
                   static_cast<double>(result.at("runs").size());
      parts += formatted("%s%.1f", parts.empty() ? "" : "/", 100 * of_part);
    }
    matched = formatted("%s m/mm: %s\n", task.name, parts);
  }
  if (!results.at("average").is_null()) {
    std::printf("%s %6s\n", head.c_str(), "Avg");
    std::printf("%-12s %8.1fM%s %6.1f\n", results.at("recipe").get<std::string>().c_str(),
                results.at("parameters").get<double>() / 1e6, means.c_str(),
                100 * results.at("average").get<double>());
    if (several)
      std::printf("%-12s %9s%s\n", formatted("+- (%zu seeds)", results.at("seeds").size()).c_str(),
                  "", deviations.c_str());
  }
  std::printf("%s%s", matched.c_str(), aside.c_str());
  for (const auto& name : results.at("skipped"))
    std::printf("%s: left out, not in the average\n", name.get<std::string>().c_str());
}

int glue(const GlueOptions& options) {
  keep_memory_mapped();
  GlueEvents events;
  events.message = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  events.run = [](const std::string& name, int64_t number, int64_t of) {
    return training_progress(of > 1 ? formatted("%s %lld/%lld", name, number, of) : name);
  };
  events.finished = [](const std::string& name, const Json& result) {
    std::fprintf(stderr, "%s seed %lld: %.1f (%.0f s)\n", name.c_str(),
                 static_cast<long long>(result.at("seed").get<int64_t>()),
                 100 * result.at("metrics").at("score").get<double>(),
                 result.at("seconds").get<double>());
  };
  const auto outcome = run_glue(options, events);
  if (outcome.end == Trainer::End::kInterrupted) return stopped_by_signal(options.out);
  if (!outcome.results.is_null()) {
    print_results(outcome.results);
    std::printf("results: %s/results.json\n", options.out.c_str());
  }
  return 0;
}

}  // namespace

Command glue_command() {
  return make_command<GlueOptions>(
      "glue", "fine-tune and score a model on all tasks of GLUE", glue,
      "Examples:\n"
      "  hydramix make-data glue && hydramix glue --recipe tiny\n"
      "  hydramix glue --model runs/hydra --data glue --out runs/hydra-glue\n"
      "  hydramix glue --model runs/hydra --data glue --tasks SST-2,CoLA --seeds 3\n"
      "Scores are those of the paper's tables: accuracy; for QQP and MRPC the mean of F1 and "
      "accuracy, for CoLA Matthews' correlation, for STS-B Spearman's, for MNLI the mean of "
      "both dev sets. Runs that are complete are not repeated.");
}

}  // namespace hydramix
