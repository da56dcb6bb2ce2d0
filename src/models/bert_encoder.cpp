// SPDX-License-Identifier: Apache-2.0
#include "hydramix/bert_encoder.h"

#include <algorithm>

#include "hydramix/error.h"
#include "models/encoder_parts.h"
#include "ops/described.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/projection.h"

namespace hydramix {
namespace {

LayerStackOptions layers_of(const BertOptions& options) {
  return {.layers = options.layers,
          .pre_norm = options.norm == "pre",
          .norm_eps = options.norm_eps,
          .output_dropout = options.output_dropout,
          .recompute = options.recompute,
          .mlp = options.mlp,
          .block = options.block};
}

void check_table(const char* name, const torch::Tensor& ids, int64_t bound) {
  HYDRAMIX_CHECK(ids.defined() && ids.dim() == 2 && ids.scalar_type() == torch::kInt64,
                 "bert: ", name, " must be (B, L) int64; got ", described(ids), ".");
  check_numbers(name, ids, bound);
}

}  // namespace

BertEncoderImpl::BertEncoderImpl(const BertOptions& options) : options_(options) {
  validate(options);
  const int64_t d_model = options.block.d_model;
  auto embeddings = scope(*this, "embeddings");
  word_embeddings =
      embeddings->register_module("word_embeddings", TiedEmbedding(options.vocab, d_model));
  token_type_embeddings = embeddings->register_module(
      "token_type_embeddings", torch::nn::Embedding(options.type_vocab, d_model));
  if (options.positions > 0)
    position_embeddings = embeddings->register_module(
        "position_embeddings", torch::nn::Embedding(options.positions, d_model));
  embedding_norm =
      embeddings->register_module("LayerNorm", make_norm(d_model, options.embedding_norm_eps));

  encoder = register_module("encoder", LayerStack(layers_of(options)));
  if (options.pooler)
    pooler = scope(*this, "pooler")->register_module("dense", torch::nn::Linear(d_model, d_model));
}

void BertEncoderImpl::check_ids(const torch::Tensor& ids, const torch::Tensor& type_ids) const {
  check_table("ids", ids, options_.vocab);
  if (!type_ids.defined()) return;
  check_table("type_ids", type_ids, options_.type_vocab);
  HYDRAMIX_CHECK(type_ids.sizes() == ids.sizes(), "bert: type_ids must have the shape of ids, ",
                 ids.sizes(), "; got ", type_ids.sizes(), ".");
}

torch::Tensor BertEncoderImpl::embed(const torch::Tensor& ids, const torch::Tensor& type_ids,
                                     const Layout& layout, const DropoutKey& dropout) const {
  // If all tokens have one type, add its row instead of a lookup.
  const auto types = type_ids.defined()
                         ? hydramix::embedding(token_type_embeddings->weight, type_ids)
                         : token_type_embeddings->weight[0];
  auto e = hydramix::embedding(word_embeddings->weight, ids) + types;
  const bool dropping = is_training() && options_.dropout > 0;
  if (!position_embeddings.is_empty()) {
    HYDRAMIX_CHECK(layout.longest(ids.size(1)) <= options_.positions, "bert: a sequence of length ",
                   layout.longest(ids.size(1)), " is longer than positions = ", options_.positions,
                   ". Cut it, or train a model with more positions.");
    const auto place = layout.sequences(ids.size(0), ids.size(1)).place_of_tokens(ids.device());
    e = e + in_places(torch::embedding(position_embeddings->weight, place), layout, e.sizes());
  }
  e = normalized(embedding_norm, e);
  if (!dropping) return e;

  const auto tokens = token_numbers(e, layout, dropout, options_.dropout);
  return without(e, keep_mask(tokens, e.size(2), options_.dropout), layout, options_.dropout);
}

torch::Tensor BertEncoderImpl::encode(
    const torch::Tensor& ids, const torch::Tensor& type_ids, const Layout& given,
    const DropoutKey& dropout, const std::function<void(const torch::Tensor&)>& observe) const {
  check_ids(ids, type_ids);
  given.check("bert", ids.size(0), ids.size(1));
  const Layout layout = given.for_shape(ids.size(0), ids.size(1));
  auto x = embed(ids, type_ids, layout, dropout);
  const auto type = x.scalar_type();
  x = x.to(product_type(x, precision_));
  if (observe) observe(x);
  return encoder->forward(x, layout, dropout, observe).to(type);
}

void BertEncoderImpl::set_precision(torch::ScalarType precision) {
  HYDRAMIX_CHECK_USAGE(precision == torch::kFloat32 || precision == torch::kBFloat16,
                       "bert: products are computed in float32 or bfloat16; got ", precision, ".");
  precision_ = precision;
}

torch::Tensor BertEncoderImpl::pool(const torch::Tensor& rows) const {
  HYDRAMIX_CHECK(!pooler.is_empty(),
                 "bert: this encoder has no pooler. Make it with options.pooler = true.");
  return torch::tanh(project(rows, pooler->weight, pooler->bias));
}

int64_t longest_sequence(const BertOptions& options) {
  const auto& block = options.block;
  const bool extendable =
      mixer_info(block.mixer, block.mixer_options).extendable &&
      (block.side_mixer == "none" || mixer_info(block.side_mixer, block.mixer_options).extendable);
  const int64_t mixed = extendable ? 0 : options.block.mixer_options.max_length;
  if (options.positions == 0 || mixed == 0) return std::max(options.positions, mixed);
  return std::min(options.positions, mixed);
}

}  // namespace hydramix
