// SPDX-License-Identifier: Apache-2.0
// A Hydra that learns the built-in language in under a minute on two cores: what there is to try
// things with where no model was given. recipes/tiny.yaml says the same.
#pragma once

#include "train/pretrain.h"

namespace hydramix {

PretrainOptions tiny_pretraining();

}  // namespace hydramix
