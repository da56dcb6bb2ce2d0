// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "train/trainer.h"

namespace hydramix {

// Events that show a training run as a progress bar with loss and rate, and its messages between.
// The bar ends when the last copy of the events is destroyed.
TrainEvents training_progress(const std::string& label);

// Prints how to continue a run that a signal ended, and returns the exit code.
int stopped_by_signal(const std::string& folder);

}  // namespace hydramix
