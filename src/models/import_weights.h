// SPDX-License-Identifier: Apache-2.0
// Makes a model from weights alone, for checkpoints without a config.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hydramix/bert.h"

namespace hydramix {

using Weights = std::map<std::string, torch::Tensor>;

// `hints`, completed with everything that the names and shapes of the weights determine: sizes, the
// number of layers, the optional parts and, for Hydra, all options of the block except the number
// of groups. For other mixers the hints must give the mixer and its options.
BertOptions fitted_options(const Weights& weights, BertOptions hints);

// The model with the fitted options and these weights. The decoder's copy of the word embeddings
// and index buffers, which published checkpoints also contain, are skipped and listed in the notes.
BertForMaskedLM import_weights(Weights weights, const BertOptions& hints,
                               std::vector<std::string>& notes);

}  // namespace hydramix
