// SPDX-License-Identifier: Apache-2.0
// Shared by the encoder and its heads.
#pragma once

#include <memory>
#include <string>

#include "hydramix/bert_encoder.h"

namespace hydramix {

// A module that only gives its children a name: "bert.embeddings.word_embeddings".
std::shared_ptr<torch::nn::Module> scope(torch::nn::Module& parent, const std::string& name);

torch::nn::LayerNorm make_norm(int64_t width, double eps);
torch::Tensor normalized(const torch::nn::LayerNorm& norm, const torch::Tensor& x);

// Initializes the linear layers and embeddings of a model as BERT does; other weights keep their
// module's initialization. fc_D counts as a linear layer, as in the published model.
void initialize_as_bert(const torch::nn::Module& model, const BertOptions& options);

// Throws unless ids are integers in [0, bound). On a GPU the values are not checked.
void check_numbers(const char* name, const torch::Tensor& ids, int64_t bound);

}  // namespace hydramix
