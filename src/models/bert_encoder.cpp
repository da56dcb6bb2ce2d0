// SPDX-License-Identifier: Apache-2.0
#include "hydramix/bert_encoder.h"

#include <algorithm>

#include "hydramix/error.h"
#include "models/bert_parts.h"
#include "ops/described.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/norm.h"
#include "ops/projection.h"
#include "ops/recompute.h"

namespace hydramix {
namespace {

// LayerNorm(x + y)
torch::Tensor added(const torch::nn::LayerNorm& norm, const torch::Tensor& x,
                    const torch::Tensor& y) {
  return add_layer_norm(x, y, norm->weight, norm->bias, norm->options.eps());
}

// (n, C), a row per token -> (B, L, C), zero at padding.
torch::Tensor in_places(const torch::Tensor& tokens, const Layout& layout, at::IntArrayRef shape) {
  return layout.is_full() ? tokens.view(shape) : layout.from_tokens(tokens.unsqueeze(0));
}

// The numbers that determine what a token of x (B, L, C) loses by dropout.
TokenNumbers token_numbers(const torch::Tensor& x, const Layout& layout, const DropoutKey& key,
                           double share) {
  const auto sequences = layout.sequences(x.size(0), x.size(1));
  check_key("bert", key, sequences.count(), share);
  return {key.seed,
          key.sequences.to(x.device()).index_select(0, sequences.index_of_tokens(x.device())),
          sequences.place_of_tokens(x.device())};
}

// x (B, L, C) without the channels that `keep` (n, C) does not keep, the others scaled. The scale
// is not part of the mask, because bfloat16 would round it.
torch::Tensor without(const torch::Tensor& x, const torch::Tensor& keep, const Layout& layout,
                      double share) {
  return x * in_places(keep.to(x.scalar_type()), layout, x.sizes()) * (1 / (1 - share));
}

void check_table(const char* name, const torch::Tensor& ids, int64_t bound) {
  HYDRAMIX_CHECK(ids.defined() && ids.dim() == 2 && ids.scalar_type() == torch::kInt64,
                 "bert: ", name, " must be (B, L) int64; got ", described(ids), ".");
  check_numbers(name, ids, bound);
}

}  // namespace

torch::Tensor BertEncoderImpl::Layer::forward(const torch::Tensor& x, const Layout& layout,
                                              const DropoutKey& dropout) const {
  if (pre_norm) {
    const auto mixed =
        x + dropped(mixer->forward(normalized(norm, x), layout, dropout), 0, layout, dropout);
    if (mlp.is_empty()) return mixed;
    return mixed + dropped(mlp->forward(normalized(mlp_norm, mixed)), 1, layout, dropout);
  }
  const auto mixed =
      added(norm, x, dropped(mixer->forward(x, layout, dropout), 0, layout, dropout));
  if (mlp.is_empty()) return mixed;
  return added(mlp_norm, mixed, dropped(mlp->forward(mixed), 1, layout, dropout));
}

torch::Tensor BertEncoderImpl::Layer::dropped(const torch::Tensor& y, int64_t half,
                                              const Layout& layout, const DropoutKey& key) const {
  if (output_dropout == 0 || !mixer->is_training()) return y;
  const auto tokens = token_numbers(y, layout, key, output_dropout);
  const auto keep = keep_output(tokens, 2 * key.layer + half, y.size(2), output_dropout);
  return without(y, keep, layout, output_dropout);
}

std::vector<torch::Tensor> BertEncoderImpl::Layer::parameters() const {
  auto all = mixer->parameters();
  const auto append = [&](const std::vector<torch::Tensor>& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  append(norm->parameters());
  if (!mlp.is_empty()) append(mlp->parameters());
  if (!mlp_norm.is_empty()) append(mlp_norm->parameters());
  return all;
}

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
  embedding_norm = embeddings->register_module("LayerNorm", make_norm(d_model, 1e-12));

  auto encoder = scope(*this, "encoder");
  auto stack = scope(*encoder, "layer");
  for (int64_t i = 0; i < options.layers; ++i) {
    auto whole = scope(*stack, std::to_string(i));
    auto mixing = scope(*whole, "layer");
    Layer layer{options.norm == "pre", options.output_dropout,
                mixing->register_module("mixer", Block(options.block)),
                mixing->register_module("norm", make_norm(d_model, 1e-5))};
    if (options.mlp.kind != "none") {
      layer.mlp = whole->register_module("mlp", Mlp(d_model, options.mlp));
      layer.mlp_norm = whole->register_module("mlp_norm", make_norm(d_model, 1e-5));
    }
    layers_.push_back(layer);
  }
  if (options.norm == "pre")
    final_norm = encoder->register_module("norm", make_norm(d_model, 1e-5));
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
                   layout.longest(ids.size(1)),
                   " has places beyond positions = ", options_.positions,
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
  DropoutKey key = dropout;
  key.layer = 0;
  for (const auto& layer : layers_) {
    // Captures the layer by value, which shares its weights, because the autograd graph may outlive
    // the model.
    const auto run = [layer, layout, key](const torch::Tensor& input) {
      return layer.forward(input, layout, key);
    };
    x = options_.recompute ? recomputed(run, x, layer.parameters()) : run(x);
    if (observe) observe(x);
    ++key.layer;
  }
  return (final_norm.is_empty() ? x : normalized(final_norm, x)).to(type);
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
