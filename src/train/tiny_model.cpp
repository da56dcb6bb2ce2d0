// SPDX-License-Identifier: Apache-2.0
#include "train/tiny_model.h"

#include "embedded/tiny_recipe.h"

namespace hydramix {

PretrainOptions tiny_pretraining() {
  PretrainOptions options;
  parse_yaml(options, embedded::tiny_recipe, "recipes/tiny.yaml");
  return options;
}

}  // namespace hydramix
