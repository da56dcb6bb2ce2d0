// SPDX-License-Identifier: Apache-2.0
// Compares the sizes of a model with the numbers that its file holds, before memory for the model
// is allocated: a few bytes of a config could otherwise ask for any amount.
#pragma once

#include "hydramix/bert_encoder.h"

namespace hydramix {

// Throws when a module of these options needs more weights than the `held` numbers of the file.
// `rows`: of the embeddings, 0 for a block alone. `origin` names what describes the module.
void check_size(const BlockOptions& block, double rows, double layers, double held,
                const std::string& origin);
void check_size(const BertOptions& options, double held, const std::string& origin);

}  // namespace hydramix
