// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "train/trainer.h"

namespace hydramix {

// The notes of a progress line: loss, rate, and skipped steps if there are any.
std::vector<std::string> training_notes(const StepReport& report);

// "sequence 96 of 4096": how far a step is.
std::string micro_batch_note(const MicroBatchReport& report);

// Events that show a training run as a progress bar with loss and rate, and its messages between.
// The bar ends when the last copy of the events is destroyed.
TrainEvents training_progress(const std::string& label);

// Prints how to continue a run that a signal ended, and returns the exit code.
int stopped_by_signal(const std::string& folder);

}  // namespace hydramix
