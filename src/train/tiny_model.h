// SPDX-License-Identifier: Apache-2.0
// The model of recipes/tiny.yaml: a Hydra that learns the built-in language in under a minute on
// two cores. The demo and `glue --recipe tiny` train it. The recipe is compiled in, since an
// installed command has no recipes beside it.
#pragma once

#include "train/pretrain.h"

namespace hydramix {

PretrainOptions tiny_pretraining();

}  // namespace hydramix
