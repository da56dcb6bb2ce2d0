// SPDX-License-Identifier: Apache-2.0
#include "cli/training_progress.h"

#include <csignal>
#include <cstdio>
#include <memory>

#include "base/formatted.h"
#include "base/interrupt.h"
#include "cli/progress.h"

namespace hydramix {

TrainEvents training_progress(const std::string& label) {
  // Made at the first step, which knows the number of steps.
  const auto progress = std::make_shared<std::unique_ptr<Progress>>();
  TrainEvents events;
  events.step = [progress, label](const StepReport& report) {
    if (!*progress)
      *progress = std::make_unique<Progress>(label, report.steps, "steps", 1, report.step - 1);
    (*progress)->advance(formatted(
        "loss %.3f  %.0f tokens/s%s", report.loss, report.tokens_per_second,
        report.skipped > 0 ? formatted("  %lld skipped", report.skipped) : std::string()));
  };
  events.message = [progress](const std::string& message) {
    if (*progress)
      (*progress)->message(message);
    else
      std::fprintf(stderr, "%s\n", message.c_str());
  };
  return events;
}

int stopped_by_signal(const std::string& folder) {
  std::fprintf(stderr, "stopped; %s holds everything. The same command continues.\n",
               folder.c_str());
  return 128 + (Interrupt::signal() != 0 ? Interrupt::signal() : SIGTERM);
}

}  // namespace hydramix
