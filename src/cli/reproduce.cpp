// SPDX-License-Identifier: Apache-2.0
// hydramix reproduce: the paper's tables, trained and set beside its numbers.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/counted.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/training_progress.h"
#include "reproduce/reproduce.h"

namespace hydramix {
namespace {

int run_reproduce(const ReproduceOptions& options) {
  constexpr double kParts = 1000;  // steps of the bar in a run
  std::unique_ptr<Progress> progress;
  RunnerEvents events;
  events.message = [&](const std::string& message) {
    if (progress)
      progress->message(message);
    else
      std::fprintf(stderr, "%s\n", message.c_str());
  };
  events.progress = [&](const RunnerProgress& now) {
    const auto total = static_cast<double>(now.total);
    if (!progress && now.kept < total) {
      if (now.kept > 0)
        std::fprintf(stderr, "%s of %zu finished before\n",
                     counted(std::llround(now.kept), "run").c_str(), now.total);
      progress = std::make_unique<Progress>("reproduce", std::llround(kParts * total), "runs",
                                            kParts, std::llround(kParts * now.kept));
    }
    if (progress) progress->advance_to(std::llround(kParts * now.done), now.running);
  };
  const auto outcome =
      reproduce(options, std::filesystem::read_symlink("/proc/self/exe"), HYDRAMIX_VERSION, events);
  progress.reset();
  std::printf("report: %s\n", outcome.report.c_str());
  if (outcome.runs.interrupted) return stopped_by_signal(options.out);
  for (const auto& name : outcome.runs.skipped)
    std::fprintf(stderr, "left out, what it needs has failed: %s\n", name.c_str());
  if (outcome.runs.failed.empty()) return 0;
  std::fprintf(stderr, "%s failed:\n", counted(std::ssize(outcome.runs.failed), "run").c_str());
  for (const auto& name : outcome.runs.failed) std::fprintf(stderr, "  %s\n", name.c_str());
  return 1;
}

}  // namespace

Command reproduce_command() {
  return make_command<ReproduceOptions>(
      "reproduce", "train the rows of the paper's tables and report them beside its numbers",
      run_reproduce,
      "Examples:\n"
      "  hydramix reproduce\n"
      "  hydramix reproduce table3 --out runs/table3\n"
      "  hydramix reproduce 2 3 --scale small --data data/wiki --data data/glue\n"
      "Finished runs are kept: the same command continues after an interruption, and with more "
      "tables or seeds adds what is missing. OUT/report.html has the tables, findings, curves, "
      "matrices and the command of every row; report.md, report.csv and report.json beside it.");
}

}  // namespace hydramix
