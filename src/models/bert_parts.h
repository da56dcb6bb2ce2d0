// SPDX-License-Identifier: Apache-2.0
// What the encoder and the heads on it have in common.
#pragma once

#include <memory>
#include <string>

#include "hydramix/bert_encoder.h"

namespace hydramix {

// A module that only gives its children a name: "bert.embeddings.word_embeddings".
std::shared_ptr<torch::nn::Module> scope(torch::nn::Module& parent, const std::string& name);

torch::nn::LayerNorm make_norm(int64_t width, double eps);
torch::Tensor normalized(const torch::nn::LayerNorm& norm, const torch::Tensor& x);

// Initial weights of a whole model, as BERT's, and as the published model's, whose fc_D is a linear
// layer like any other: what is not a linear layer or an embedding keeps what its module gave it.
void initialize_as_bert(const torch::nn::Module& model, const BertOptions& options);

// "shape [2, 3] of long", for errors.
std::string described(const torch::Tensor& t);

// Throws unless ids are whole numbers in [0, bound). On a GPU it does not look at them.
void check_numbers(const char* name, const torch::Tensor& ids, int64_t bound);

// Throws unless the key has a number for each of `count` sequences; `share` is what is dropped.
void check_key(const DropoutKey& key, int64_t count, double share);

}  // namespace hydramix
