// SPDX-License-Identifier: Apache-2.0
// The stages of `reproduce recall`, one for each cell (reproduce/recall_grid.h).
//
//   OUT/runs/recall/CELL/recipe.json  the options, complete
//                        run/         the run (train/recall.h)
//                        recall.json  its result
//                        recall.log   output of the command
#pragma once

#include "reproduce/plan.h"
#include "reproduce/recall_results.h"

namespace hydramix {

std::vector<Stage> recall_stages(const ReproducePlan& plan, const ChildSettings& settings);

// The results of the finished stages.
std::vector<RecallPoint> finished_recall(const ReproducePlan& plan);

// The runs of seed 1, as a person would type them.
std::vector<std::string> recall_commands(const ReproducePlan& plan);

}  // namespace hydramix
