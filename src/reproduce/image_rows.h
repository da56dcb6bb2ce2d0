// SPDX-License-Identifier: Apache-2.0
// The rows of Table 5: image classifiers, each a recipe of recipes/table5 or recipes/images, run by
// `hydramix train-images` (train/train_images.h).
//
//   OUT/runs/ROW/seed-N/recipe.yaml  the recipe
//                       images/      the run
//                       images.json  its result
#pragma once

#include <string>
#include <vector>

#include "reproduce/plan.h"

namespace hydramix {

bool is_image_row(const std::string& row);

// The recipe of "table5/hydra-vit-b" at a scale: that, "images/small-hydra" or "images/tiny".
std::string image_recipe_of(const std::string& row, Scale scale);

// The run as a person would type it.
std::string image_command_line(const ReproducePlan& plan, const std::string& row, int64_t seed);

Stage image_stage(const ReproducePlan& plan, const ChildSettings& settings, const std::string& row,
                  int64_t seed);

}  // namespace hydramix
