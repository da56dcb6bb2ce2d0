// SPDX-License-Identifier: Apache-2.0
#include "models/import_weights.h"

#include <algorithm>

#include "hydramix/error.h"
#include "hydramix/weights.h"

namespace hydramix {
namespace {

const std::string kWords = "bert.embeddings.word_embeddings.weight";
const std::string kLayer = "bert.encoder.layer.";
const std::string kFirstLayer = kLayer + "0.";
const std::string kBlock = kFirstLayer + "layer.mixer.";

// The tensor of this name and number of dimensions, or nullptr.
const torch::Tensor* find(const Weights& weights, const std::string& name, int64_t dimensions) {
  const auto found = weights.find(name);
  return found != weights.end() && found->second.dim() == dimensions ? &found->second : nullptr;
}

bool any_under(const Weights& weights, const std::string& prefix) {
  const auto next = weights.lower_bound(prefix);
  return next != weights.end() && next->first.starts_with(prefix);
}

int64_t count_layers(const Weights& weights) {
  int64_t layers = 0;
  while (any_under(weights, concat(kLayer, layers, "."))) ++layers;
  return layers;
}

void fit_mlp(const Weights& weights, MlpOptions& mlp) {
  if (!any_under(weights, kFirstLayer + "mlp.")) {
    mlp.kind = "none";
    return;
  }
  const auto* wi = find(weights, kFirstLayer + "mlp.wi.weight", 2);  // (width or 2 width, d_model)
  const auto* wo = find(weights, kFirstLayer + "mlp.wo.weight", 2);  // (d_model, width)
  if (wi == nullptr || wo == nullptr) return;  // block-diagonal: the hints must give the sizes
  mlp.blocks = 1;
  mlp.width = wo->size(1);
  mlp.kind = wi->size(0) == wo->size(1) ? "gelu" : "glu";
  mlp.bias = weights.count(kFirstLayer + "mlp.wo.bias") != 0;
  mlp.input_bias = !mlp.bias || weights.count(kFirstLayer + "mlp.wi.bias") != 0;
}

// The weight fc_D identifies Hydra. conv1d covers x and, for each direction, B and C of G N
// columns.
void fit_hydra(const torch::Tensor& fc_D, const torch::Tensor* conv, BlockOptions& block) {
  block.mixer = "hydra";
  const int64_t H = fc_D.size(0), d_inner = fc_D.size(1);
  if (H == 0 || d_inner == 0 || block.d_model == 0) return;
  block.expand = static_cast<double>(d_inner) / static_cast<double>(block.d_model);
  block.headdim = d_inner / H;
  if (conv != nullptr && conv->size(0) > d_inner)
    block.mixer_options.d_state =
        std::max<int64_t>((conv->size(0) - d_inner) / 4 / block.mixer_options.groups, 1);
}

}  // namespace

BertOptions fitted_options(const Weights& weights, BertOptions hints) {
  const auto* words = find(weights, kWords, 2);
  HYDRAMIX_CHECK(words != nullptr, "the weights have no matrix '", kWords,
                 "', so they are not those of an encoder. Convert them to a file instead.");
  hints.vocab = words->size(0);
  hints.block.d_model = words->size(1);
  if (const auto* types = find(weights, "bert.embeddings.token_type_embeddings.weight", 2))
    hints.type_vocab = types->size(0);
  const auto* places = find(weights, "bert.embeddings.position_embeddings.weight", 2);
  hints.positions = places == nullptr ? 0 : places->size(0);
  hints.layers = count_layers(weights);
  hints.pooler = any_under(weights, "bert.pooler.");
  hints.norm = any_under(weights, "bert.encoder.norm.") ? "pre" : "post";
  fit_mlp(weights, hints.mlp);

  const auto* conv = find(weights, kBlock + "conv1d.weight", 3);  // (channels, 1, d_conv)
  if (conv != nullptr) {
    hints.block.d_conv = conv->size(2);
    hints.block.conv_bias = weights.count(kBlock + "conv1d.bias") != 0;
  }
  hints.block.bias = weights.count(kBlock + "in_proj.bias") != 0;
  if (const auto* fc_D = find(weights, kBlock + "fc_D.weight", 2)) {  // (H, d_inner)
    fit_hydra(*fc_D, conv, hints.block);
    hints.block.mixer_options.learn_initial_states = weights.count(kBlock + "init_states") != 0;
  }
  return hints;
}

BertForMaskedLM import_weights(Weights weights, const BertOptions& hints,
                               std::vector<std::string>& notes) {
  // Published models tie the decoder to the word embeddings, and files may contain both.
  const std::string decoder = "cls.predictions.decoder.weight";
  if (const auto tied = weights.find(decoder); tied != weights.end()) {
    const auto words = weights.find(kWords);
    HYDRAMIX_CHECK(words != weights.end() && torch::equal(tied->second, words->second), "'",
                   decoder, "' differs from '", kWords,
                   "', but the model has one matrix for both. Was it trained with tied weights?");
    weights.erase(tied);
    notes.push_back("left out '" + decoder + "', which is the matrix of the word embeddings");
  }
  for (const std::string buffer : {"position_ids", "token_type_ids"})
    if (weights.erase("bert.embeddings." + buffer) != 0)
      notes.push_back("left out 'bert.embeddings." + buffer + "', which is no weight");

  BertForMaskedLM model(fitted_options(weights, hints));
  for (const auto& [name, weight] : weights)
    if (weight.scalar_type() == torch::kFloat64) {
      model->to(torch::kFloat64);
      break;
    }
  load_weights(*model, weights);
  return model;
}

}  // namespace hydramix
