// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "train/trainer.h"

namespace hydramix {

// Events that show a training run as a progress bar with loss and rate, and its messages between.
// The bar ends with the last copy of them.
TrainEvents training_progress(const std::string& label);

// What is said, and the exit code, when a signal ended a run that can be continued.
int stopped_by_signal(const std::string& folder);

}  // namespace hydramix
