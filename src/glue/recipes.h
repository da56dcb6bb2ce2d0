// SPDX-License-Identifier: Apache-2.0
// Hyperparameters of fine-tuning, task by task. A recipe is a YAML file. Those of recipes/glue are
// compiled in and found by name.
//
//   all:  {max_length: 256, clip: inf}        for every task
//   mnli: {rate: 1e-4, decay: 5e-6, ...}      for one: mnli, qnli, qqp, rte, sst2, mrpc, cola,
//                                             stsb, wnli
//   own:  {...}                               for a user's own files
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hydramix/options.h"

namespace hydramix {

struct TaskRecipe {
  double rate = 0, decay = 0;
  std::string decay_rule = "decoupled";
  double clip = kInfinity;
  int64_t epochs = 0, batch = 0, max_length = 0;
  std::string pooling = "auto";
  std::vector<std::string> groups;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("rate", self.rate, Range{0.0, 1e3}, "learning rate at its peak");
    v("decay", self.decay, Range{0.0, 1.0}, "weight decay at the peak rate");
    v("decay_rule", self.decay_rule, Choices{"decoupled", "times_rate"},
      "whether the rate multiplies the decay (train/adamw.h)");
    v("clip", self.clip, Range{0.0, kInfinity}, "largest norm of the gradient");
    v("epochs", self.epochs, Range{0, 1 << 20}, "passes over the examples");
    v("batch", self.batch, Range{0, 1 << 20}, "examples per step");
    v("max_length", self.max_length, Range{0, 1 << 24}, "tokens of an example");
    v("pooling", self.pooling, Choices{"auto", "cls", "mean"}, "vector that is classified");
    v("groups", self.groups,
      "weights with a rate or decay of their own (train/parameter_groups.h)");
  }
};

// The names of the compiled-in recipes.
const std::vector<std::string>& glue_recipes();

inline constexpr const char* kOwnFiles = "own";
// `recipe` is one of these names, or the path of a .yaml file. Throws UsageError if there is none,
// or if it is incomplete for the task. `task` is a SentenceTask's name, or kOwnFiles.
TaskRecipe glue_recipe(const std::string& recipe, const std::string& task);

}  // namespace hydramix
