// SPDX-License-Identifier: Apache-2.0
// The files of recipes/glue, which the build puts into the program: it needs no folder at run time.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hydramix {

// Name without .yaml, and contents; by name.
const std::vector<std::pair<std::string, std::string>>& glue_recipe_texts();

}  // namespace hydramix
