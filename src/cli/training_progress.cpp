// SPDX-License-Identifier: Apache-2.0
#include "cli/training_progress.h"

#include <csignal>
#include <cstdio>
#include <memory>

#include "base/formatted.h"
#include "base/interrupt.h"
#include "cli/progress.h"

namespace hydramix {

std::vector<std::string> training_notes(const StepReport& report) {
  std::vector<std::string> notes{formatted("loss %.3f", report.loss)};
  if (report.skipped > 0) notes.push_back(formatted("%lld skipped", report.skipped));
  notes.push_back(formatted("%.0f tokens/s", report.tokens_per_second));
  return notes;
}

std::string micro_batch_note(const MicroBatchReport& report) {
  return formatted("sequence %lld of %lld", report.done, report.sequences);
}

TrainEvents training_progress(const std::string& label) {
  // Created in the first step, when the number of steps is known.
  const auto progress = std::make_shared<std::unique_ptr<Progress>>();
  TrainEvents events;
  events.micro_batch = [progress, label](const MicroBatchReport& report) {
    if (!*progress)
      *progress = std::make_unique<Progress>(label, report.steps, "steps", 1, report.step);
    (*progress)->within_step(micro_batch_note(report));
  };
  events.step = [progress](const StepReport& report) {
    (*progress)->advance(training_notes(report));
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
