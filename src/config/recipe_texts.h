// SPDX-License-Identifier: Apache-2.0
// The files of recipes/, which the build compiles in: the program needs no folder at run time.
#pragma once

#include <map>
#include <string>

namespace hydramix {

// The recipes by their path in recipes/, without .yaml: "tiny", "glue/hydra".
const std::map<std::string, std::string>& recipe_texts();

}  // namespace hydramix
