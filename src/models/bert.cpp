// SPDX-License-Identifier: Apache-2.0
#include "hydramix/bert.h"

#include <algorithm>

#include "hydramix/error.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/gpu/token_table.h"
#include "ops/linear_cross_entropy.h"
#include "ops/norm.h"
#include "ops/projection.h"
#include "ops/recompute.h"

namespace hydramix {
namespace {

// A module that only gives its children a name: "bert.embeddings.word_embeddings".
std::shared_ptr<torch::nn::Module> scope(torch::nn::Module& parent, const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>());
}

torch::nn::LayerNorm make_norm(int64_t width, double eps) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(eps));
}

torch::Tensor normalized(const torch::nn::LayerNorm& norm, const torch::Tensor& x) {
  return layer_norm(x, norm->weight, norm->bias, norm->options.eps());
}

// LayerNorm(x + y)
torch::Tensor added(const torch::nn::LayerNorm& norm, const torch::Tensor& x,
                    const torch::Tensor& y) {
  return add_layer_norm(x, y, norm->weight, norm->bias, norm->options.eps());
}

std::string described(const torch::Tensor& t) {
  return t.defined() ? concat("shape ", t.sizes(), " of ", t.dtype()) : "an undefined tensor";
}

// Throws unless ids are whole numbers in [0, bound). On a GPU it does not look at them.
void check_numbers(const char* name, const torch::Tensor& ids, int64_t bound) {
  if (!ids.is_cpu() || ids.numel() == 0) return;
  const int64_t low = ids.min().item<int64_t>(), high = ids.max().item<int64_t>();
  HYDRAMIX_CHECK(low >= 0 && high < bound, "bert: ", name, " must be in [0, ", bound - 1, "]; got ",
                 low < 0 ? low : high, ". Is the text tokenized with this model's vocabulary?");
}

void check_table(const char* name, const torch::Tensor& ids, int64_t bound) {
  HYDRAMIX_CHECK(ids.defined() && ids.dim() == 2 && ids.scalar_type() == torch::kInt64,
                 "bert: ", name, " must be (B, L) int64; got ", described(ids), ".");
  check_numbers(name, ids, bound);
}

// For every token of (B, L) places the index of its sequence and its place in that: (n) each.
struct TokenPlaces {
  torch::Tensor sequence, place;
};
TokenPlaces places_of_tokens(const Layout& layout, int64_t B, int64_t L, torch::Device device) {
  const auto offsets = layout.offsets(B, L);
  if constexpr (gpu::kBuilt)
    if (device.is_cuda() && offsets.back() > 0) {
      const auto table = gpu::token_table(offsets, device);
      return {table->sequences(), table->places()};
    }
  const auto bounds = torch::tensor(offsets, torch::kInt64);
  const auto count = static_cast<int64_t>(offsets.size()) - 1;
  const auto lengths = bounds.narrow(0, 1, count) - bounds.narrow(0, 0, count);
  const auto sequence = torch::repeat_interleave(torch::arange(count), lengths);
  const auto place = torch::arange(offsets.back()) - bounds.index_select(0, sequence);
  // Nobody writes into these again: no need to wait until the device has them.
  return {sequence.to(device, /*non_blocking=*/true), place.to(device, /*non_blocking=*/true)};
}

}  // namespace

torch::Tensor BertForMaskedLMImpl::Layer::forward(const torch::Tensor& x,
                                                  const Layout& layout) const {
  if (pre_norm) {
    const auto mixed = x + mixer->forward(normalized(norm, x), layout);
    return mlp.is_empty() ? mixed : mixed + mlp->forward(normalized(mlp_norm, mixed));
  }
  const auto mixed = added(norm, x, mixer->forward(x, layout));
  return mlp.is_empty() ? mixed : added(mlp_norm, mixed, mlp->forward(mixed));
}

std::vector<torch::Tensor> BertForMaskedLMImpl::Layer::parameters() const {
  auto all = mixer->parameters();
  const auto append = [&](const std::vector<torch::Tensor>& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  append(norm->parameters());
  if (!mlp.is_empty()) append(mlp->parameters());
  if (!mlp_norm.is_empty()) append(mlp_norm->parameters());
  return all;
}

BertForMaskedLMImpl::BertForMaskedLMImpl(const BertOptions& options) : options_(options) {
  validate(options);
  const int64_t d_model = options.block.d_model;
  auto bert = scope(*this, "bert");

  auto embeddings = scope(*bert, "embeddings");
  word_embeddings =
      embeddings->register_module("word_embeddings", torch::nn::Embedding(options.vocab, d_model));
  token_type_embeddings = embeddings->register_module(
      "token_type_embeddings", torch::nn::Embedding(options.type_vocab, d_model));
  if (options.positions > 0)
    position_embeddings = embeddings->register_module(
        "position_embeddings", torch::nn::Embedding(options.positions, d_model));
  embedding_norm = embeddings->register_module("LayerNorm", make_norm(d_model, 1e-12));

  auto encoder = scope(*bert, "encoder");
  auto stack = scope(*encoder, "layer");
  for (int64_t i = 0; i < options.layers; ++i) {
    auto whole = scope(*stack, std::to_string(i));
    auto mixing = scope(*whole, "layer");
    Layer layer{options.norm == "pre", mixing->register_module("mixer", Block(options.block)),
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
    scope(*bert, "pooler")->register_module("dense", torch::nn::Linear(d_model, d_model));

  auto predictions = scope(*scope(*this, "cls"), "predictions");
  auto head = scope(*predictions, "transform");
  transform = head->register_module("dense", torch::nn::Linear(d_model, d_model));
  transform_norm = head->register_module("LayerNorm", make_norm(d_model, 1e-12));
  decoder_bias =
      scope(*predictions, "decoder")->register_parameter("bias", torch::zeros({options.vocab}));
  initialize();
}

// As BERT, and as the published model, whose fc_D is a linear layer like any other: what is not a
// linear layer or an embedding keeps what its module gave it.
void BertForMaskedLMImpl::initialize() {
  torch::NoGradGuard no_grad;
  const double deviation = options_.initial_deviation;
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* linear = module->as<torch::nn::LinearImpl>()) {
      linear->weight.normal_(0, deviation);
      if (linear->bias.defined()) linear->bias.zero_();
    } else if (auto* embedding = module->as<torch::nn::EmbeddingImpl>()) {
      embedding->weight.normal_(0, deviation);
    } else if (auto* mlp = module->as<MlpImpl>()) {
      for (auto& weight : mlp->parameters())
        if (weight.dim() > 1) weight.normal_(0, deviation);
    }
  }
}

void BertForMaskedLMImpl::check_ids(const torch::Tensor& ids, const torch::Tensor& type_ids) const {
  check_table("ids", ids, options_.vocab);
  if (!type_ids.defined()) return;
  check_table("type_ids", type_ids, options_.type_vocab);
  HYDRAMIX_CHECK(type_ids.sizes() == ids.sizes(), "bert: type_ids must have the shape of ids, ",
                 ids.sizes(), "; got ", type_ids.sizes(), ".");
}

torch::Tensor BertForMaskedLMImpl::embed(const torch::Tensor& ids, const torch::Tensor& type_ids,
                                         const Layout& layout, const DropoutKey& dropout) const {
  // One type for all is a row to add, not a table to look up.
  const auto types = type_ids.defined() ? torch::embedding(token_type_embeddings->weight, type_ids)
                                        : token_type_embeddings->weight[0];
  auto e = hydramix::embedding(word_embeddings->weight, ids) + types;
  const bool dropping = is_training() && options_.dropout > 0;
  if (position_embeddings.is_empty() && !dropping) return normalized(embedding_norm, e);

  const auto places = places_of_tokens(layout, ids.size(0), ids.size(1), ids.device());
  const auto& place = places.place;
  const auto in_places = [&](const torch::Tensor& tokens) {  // (n, d_model) -> (B, L, d_model)
    return layout.is_full() ? tokens.view(e.sizes()) : layout.from_tokens(tokens.unsqueeze(0));
  };
  if (!position_embeddings.is_empty()) {
    HYDRAMIX_CHECK(layout.longest(ids.size(1)) <= options_.positions, "bert: a sequence of length ",
                   layout.longest(ids.size(1)),
                   " has places beyond positions = ", options_.positions,
                   ". Cut it, or train a model with more positions.");
    e = e + in_places(torch::embedding(position_embeddings->weight, place));
  }
  e = normalized(embedding_norm, e);
  if (!dropping) return e;

  const auto& numbers = dropout.sequences;
  const int64_t count = static_cast<int64_t>(layout.offsets(ids.size(0), ids.size(1)).size()) - 1;
  HYDRAMIX_CHECK(
      numbers.defined() && numbers.dim() == 1 && numbers.size(0) == count &&
          numbers.scalar_type() == torch::kInt64,
      "bert: dropout = ", options_.dropout, " in training needs a number for each of the ", count,
      " sequences, (S) int64; got ", described(numbers), ". Give a DropoutKey, or call eval().");
  const auto sequence = numbers.to(ids.device()).index_select(0, places.sequence);
  const auto kept = kept_channels({dropout.seed, sequence, place}, e.size(2), options_.dropout);
  return e * in_places(kept.to(e.scalar_type()).mul_(1 / (1 - options_.dropout)));
}

torch::Tensor BertForMaskedLMImpl::encode(
    const torch::Tensor& ids, const torch::Tensor& type_ids, const Layout& layout,
    const DropoutKey& dropout, const std::function<void(const torch::Tensor&)>& observe) const {
  check_ids(ids, type_ids);
  layout.check("bert", ids.size(0), ids.size(1));
  auto x = embed(ids, type_ids, layout, dropout);
  const auto type = x.scalar_type();
  if (gpu::kBuilt) x = x.to(product_type(x));  // between layers, what products are computed in
  if (observe) observe(x);
  for (const auto& layer : layers_) {
    // Its own copy of the layer, which shares the weights: a graph may outlive the model.
    const auto run = [layer, layout](const torch::Tensor& input) {
      return layer.forward(input, layout);
    };
    x = options_.recompute ? recomputed(run, x, layer.parameters()) : run(x);
    if (observe) observe(x);
  }
  return (final_norm.is_empty() ? x : normalized(final_norm, x)).to(type);
}

torch::Tensor BertForMaskedLMImpl::transformed(const torch::Tensor& hidden) const {
  return normalized(transform_norm,
                    torch::gelu(project(hidden, transform->weight, transform->bias)));
}

MaskedLoss BertForMaskedLMImpl::masked_loss(const torch::Tensor& hidden,
                                            const torch::Tensor& positions,
                                            const torch::Tensor& targets, int64_t chunk) const {
  HYDRAMIX_CHECK(hidden.defined() && hidden.dim() == 3 && hidden.size(2) == options_.block.d_model,
                 "bert: hidden states must be (B, L, d_model) with d_model = ",
                 options_.block.d_model, "; got ", described(hidden), ".");
  for (const auto& [name, t] : {std::pair{"positions", positions}, {"targets", targets}})
    HYDRAMIX_CHECK(t.defined() && t.dim() == 1 && t.scalar_type() == torch::kInt64, "bert: ", name,
                   " must be (m) int64; got ", described(t), ".");
  HYDRAMIX_CHECK(positions.size(0) == targets.size(0),
                 "bert: each masked place has one target; got ", positions.size(0),
                 " positions and ", targets.size(0), " targets.");
  check_numbers("positions", positions, hidden.size(0) * hidden.size(1));
  check_numbers("targets", targets, options_.vocab);
  const auto rows = transformed(hidden.flatten(0, 1).index_select(0, positions));
  const auto result =
      linear_cross_entropy(rows, word_embeddings->weight, decoder_bias, targets, chunk);
  return {result.sum, result.correct};
}

torch::Tensor BertForMaskedLMImpl::predict(const torch::Tensor& hidden) const {
  HYDRAMIX_CHECK(
      hidden.defined() && hidden.dim() >= 1 && hidden.size(-1) == options_.block.d_model,
      "bert: hidden states must be (..., d_model) with d_model = ", options_.block.d_model,
      "; got ", hidden.defined() ? concat("shape ", hidden.sizes()) : "an undefined tensor", ".");
  return project(transformed(hidden), word_embeddings->weight, decoder_bias);
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

int64_t parameter_count(const BertOptions& options) {
  validate(options);
  BertOptions small = options;
  small.layers = 1;
  small.vocab = 1;
  int64_t rest = 0, layer = 0;
  for (const auto& item : BertForMaskedLM(small)->named_parameters())
    (item.key().starts_with("bert.encoder.layer.") ? layer : rest) += item.value().numel();
  return rest + options.layers * layer + (options.vocab - 1) * (options.block.d_model + 1);
}

}  // namespace hydramix
