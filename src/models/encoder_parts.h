// SPDX-License-Identifier: Apache-2.0
// Shared by the encoders and their heads.
#pragma once

#include <memory>
#include <string>

#include "hydramix/layout.h"
#include "hydramix/torch_compat.h"
#include "ops/dropout.h"

namespace hydramix {

// A module that only gives its children a name: "bert.embeddings.word_embeddings".
std::shared_ptr<torch::nn::Module> scope(torch::nn::Module& parent, const std::string& name);

torch::nn::LayerNorm make_norm(int64_t width, double eps);
torch::Tensor normalized(const torch::nn::LayerNorm& norm, const torch::Tensor& x);

// (n, C), a row per token -> (B, L, C), zero at padding.
torch::Tensor in_places(const torch::Tensor& tokens, const Layout& layout, at::IntArrayRef shape);

// The numbers that determine what a token of x (B, L, C) loses by dropout.
TokenNumbers token_numbers(const torch::Tensor& x, const Layout& layout, const DropoutKey& key,
                           double share);

// x (B, L, C) without the channels that `keep` (n, C) does not keep, the others scaled. The scale
// is not part of the mask, because bfloat16 would round it.
torch::Tensor without(const torch::Tensor& x, const torch::Tensor& keep, const Layout& layout,
                      double share);

struct InitialWeights {
  double deviation;
  std::string distribution;  // "normal", or "truncated_normal" at two deviations
};
void draw_weight(const torch::Tensor& weight, const InitialWeights& initial);
// Initializes the linear layers and embeddings of a model as BERT does; other weights keep their
// module's initialization. fc_D counts as a linear layer, as in the published model.
void initialize_as_bert(const torch::nn::Module& model, const InitialWeights& initial);

// Throws unless ids are integers in [0, bound). On a GPU the values are not checked.
void check_numbers(const char* name, const torch::Tensor& ids, int64_t bound);

}  // namespace hydramix
