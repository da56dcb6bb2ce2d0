// SPDX-License-Identifier: Apache-2.0
// One example of a GLUE task, before it becomes a line of a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"

namespace hydramix {

struct GlueExample {
  std::string first, second;  // second is empty for tasks of one sentence
};

struct GlueTask {
  std::string name;
  std::vector<std::string> labels;  // equally frequent
  // `label` is an index of labels. `shifted`: for the mismatched sets, which word facts
  // differently.
  GlueExample (*make)(std::size_t label, bool shifted, Random& random);
};

const std::vector<GlueTask>& glue_task_list();

}  // namespace hydramix
