// SPDX-License-Identifier: Apache-2.0
// README.md of an exported folder: what the model is, how to use it, and what it was trained on.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hub/export_folder.h"

namespace hydramix {

// Facts about training, from the folder of the run. Empty where a model came without it.
struct TrainingFacts {
  using Rows = std::vector<std::pair<std::string, std::string>>;
  Rows training;                // "data": "data/c4/train", ...
  Rows metrics;                 // of the last evaluation
  std::string version, commit;  // of the program that exports
};

std::string model_card(const std::string& name, const ExportedModel& model,
                       const TrainingFacts& facts);

}  // namespace hydramix
