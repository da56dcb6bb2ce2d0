// SPDX-License-Identifier: Apache-2.0
#include "hydramix/bert.h"

#include "hydramix/error.h"
#include "ops/norm.h"

namespace hydramix {
namespace {

// A module that only gives its children a name: "bert.embeddings.word_embeddings".
std::shared_ptr<torch::nn::Module> scope(torch::nn::Module& parent, const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>());
}

torch::nn::LayerNorm layer_norm(int64_t width, double eps) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(eps));
}

torch::Tensor normalized(const torch::nn::LayerNorm& norm, const torch::Tensor& x) {
  return torch::layer_norm(x, norm->options.normalized_shape(), norm->weight, norm->bias,
                           norm->options.eps());
}

}  // namespace

BertForMaskedLMImpl::BertForMaskedLMImpl(const BertOptions& options) : options_(options) {
  validate(options);
  const int64_t d_model = options.block.d_model;
  auto bert = scope(*this, "bert");

  auto embeddings = scope(*bert, "embeddings");
  word_embeddings =
      embeddings->register_module("word_embeddings", torch::nn::Embedding(options.vocab, d_model));
  token_type_embeddings = embeddings->register_module(
      "token_type_embeddings", torch::nn::Embedding(options.type_vocab, d_model));
  embedding_norm = embeddings->register_module("LayerNorm", layer_norm(d_model, 1e-12));

  auto encoder = scope(*scope(*bert, "encoder"), "layer");
  for (int64_t i = 0; i < options.layers; ++i) {
    auto layer = scope(*scope(*encoder, std::to_string(i)), "layer");
    layers_.push_back({layer->register_module("mixer", Block(options.block)),
                       layer->register_module("norm", layer_norm(d_model, 1e-5))});
  }
  if (options.pooler)
    scope(*bert, "pooler")->register_module("dense", torch::nn::Linear(d_model, d_model));

  auto predictions = scope(*scope(*this, "cls"), "predictions");
  auto head = scope(*predictions, "transform");
  transform = head->register_module("dense", torch::nn::Linear(d_model, d_model));
  transform_norm = head->register_module("LayerNorm", layer_norm(d_model, 1e-12));
  decoder_bias =
      scope(*predictions, "decoder")->register_parameter("bias", torch::zeros({options.vocab}));
}

void BertForMaskedLMImpl::check_ids(const char* name, const torch::Tensor& ids,
                                    int64_t bound) const {
  HYDRAMIX_CHECK(
      ids.defined() && ids.dim() == 2 && ids.scalar_type() == torch::kInt64, "bert: ", name,
      " must be (B, L) int64; got ",
      ids.defined() ? concat("shape ", ids.sizes(), " of ", ids.dtype()) : "an undefined tensor",
      ".");
  if (ids.numel() == 0) return;
  const int64_t low = ids.min().item<int64_t>(), high = ids.max().item<int64_t>();
  HYDRAMIX_CHECK(low >= 0 && high < bound, "bert: ", name, " must be in [0, ", bound - 1, "]; got ",
                 low < 0 ? low : high, ". Is the text tokenized with this model's vocabulary?");
}

torch::Tensor BertForMaskedLMImpl::encode(const torch::Tensor& ids, const torch::Tensor& type_ids,
                                          const Layout& layout) const {
  check_ids("ids", ids, options_.vocab);
  const auto types = type_ids.defined() ? type_ids : torch::zeros_like(ids);
  check_ids("type_ids", types, options_.type_vocab);
  HYDRAMIX_CHECK(types.sizes() == ids.sizes(), "bert: type_ids must have the shape of ids, ",
                 ids.sizes(), "; got ", types.sizes(), ".");
  auto x = normalized(embedding_norm, torch::embedding(word_embeddings->weight, ids) +
                                          torch::embedding(token_type_embeddings->weight, types));
  for (const auto& layer : layers_)
    x = add_layer_norm(x, layer.mixer->forward(x, layout), layer.norm->weight, layer.norm->bias,
                       layer.norm->options.eps());
  return x;
}

torch::Tensor BertForMaskedLMImpl::predict(const torch::Tensor& hidden) const {
  HYDRAMIX_CHECK(
      hidden.defined() && hidden.dim() >= 1 && hidden.size(-1) == options_.block.d_model,
      "bert: hidden states must be (..., d_model) with d_model = ", options_.block.d_model,
      "; got ", hidden.defined() ? concat("shape ", hidden.sizes()) : "an undefined tensor", ".");
  const auto h = torch::gelu(torch::linear(hidden, transform->weight, transform->bias));
  return torch::linear(normalized(transform_norm, h), word_embeddings->weight, decoder_bias);
}

torch::Tensor BertForMaskedLMImpl::loss(const torch::Tensor& logits, const torch::Tensor& labels) {
  HYDRAMIX_CHECK(labels.scalar_type() == torch::kInt64 &&
                     labels.sizes() == logits.sizes().slice(0, logits.dim() - 1),
                 "bert: labels must be int64 with one label per row of logits ", logits.sizes(),
                 "; got ", labels.sizes(), " of ", labels.dtype(), ".");
  const auto counted = (labels > 0).flatten().nonzero().squeeze(1);
  const auto rows = logits.flatten(0, -2).index_select(0, counted).log_softmax(-1);
  const auto targets = labels.flatten().index_select(0, counted);
  const int64_t largest = targets.numel() == 0 ? 0 : targets.max().item<int64_t>();
  HYDRAMIX_CHECK(largest < logits.size(-1), "bert: label ", largest,
                 " is beyond the vocabulary of ", logits.size(-1), ".");
  // Without any target the loss is zero, not 0 / 0.
  return -rows.gather(1, targets.unsqueeze(1)).sum() / std::max<int64_t>(counted.numel(), 1);
}

}  // namespace hydramix
