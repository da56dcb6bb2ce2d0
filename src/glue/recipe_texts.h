// SPDX-License-Identifier: Apache-2.0
// The files of recipes/glue, compiled into the program.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hydramix {

// Pairs of name without .yaml and contents, sorted by name.
const std::vector<std::pair<std::string, std::string>>& glue_recipe_texts();

}  // namespace hydramix
