// SPDX-License-Identifier: Apache-2.0
// Hyperparameters of fine-tuning, task by task: the three recipes of the paper's table of GLUE
// recipes, and two for models that were not in the paper: "small" for a few layers of some hundred
// channels, whose rates can be higher, "tiny" for one that learned the built-in language.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hydramix {

struct TaskRecipe {
  double rate, decay;  // of AdamW, at the peak
  int64_t epochs, batch, max_length;
};

// "hydra" (the paper's own), "m2", "train_bert", "small", "tiny".
const std::vector<std::string>& glue_recipes();
// UsageError for a recipe that is not there. `task` is a SentenceTask's name.
TaskRecipe glue_recipe(const std::string& recipe, const std::string& task);

}  // namespace hydramix
