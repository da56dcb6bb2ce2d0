// SPDX-License-Identifier: Apache-2.0
// A model from bare weights, for checkpoints that come without a config.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hydramix/bert.h"

namespace hydramix {

using Weights = std::map<std::string, torch::Tensor>;

// `hints` with everything that names and shapes of the weights tell put in: sizes, the number of
// layers, which parts there are, and for Hydra the whole block but the number of groups. For other
// mixers the hints must say which it is and what its options were.
BertOptions fitted_options(const Weights& weights, BertOptions hints);

// The model of those options with those weights. What a published checkpoint holds beyond the
// weights is left out and noted: the decoder's copy of the word embeddings, and buffers of indices.
BertForMaskedLM import_weights(Weights weights, const BertOptions& hints,
                               std::vector<std::string>& notes);

}  // namespace hydramix
