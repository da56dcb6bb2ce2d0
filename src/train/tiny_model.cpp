// SPDX-License-Identifier: Apache-2.0
#include "train/tiny_model.h"

#include "config/recipe_texts.h"

namespace hydramix {

PretrainOptions tiny_pretraining() {
  PretrainOptions options;
  parse_yaml(options, recipe_texts().at("tiny"), "recipes/tiny.yaml");
  return options;
}

}  // namespace hydramix
