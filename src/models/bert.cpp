// SPDX-License-Identifier: Apache-2.0
#include "hydramix/bert.h"

#include <algorithm>

#include "hydramix/error.h"
#include "models/encoder_parts.h"
#include "ops/described.h"
#include "ops/linear_cross_entropy.h"
#include "ops/projection.h"

namespace hydramix {

BertForMaskedLMImpl::BertForMaskedLMImpl(const BertOptions& options) {
  const int64_t d_model = options.block.d_model;
  bert = register_module("bert", BertEncoder(options));
  auto predictions = scope(*scope(*this, "cls"), "predictions");
  auto head = scope(*predictions, "transform");
  transform = head->register_module("dense", Projection(d_model, d_model));
  transform_norm =
      head->register_module("LayerNorm", make_norm(d_model, options.embedding_norm_eps));
  decoder_bias =
      scope(*predictions, "decoder")->register_parameter("bias", torch::zeros({options.vocab}));
  initialize_as_bert(*this, {options.initial_deviation, options.initial_distribution});
}

torch::Tensor BertForMaskedLMImpl::transformed(const torch::Tensor& hidden) const {
  const auto y = project(hidden, transform->weight, transform->bias, transform->copy(),
                         product_type(hidden, bert->precision()));
  return normalized(transform_norm, torch::gelu(y));
}

MaskedLoss BertForMaskedLMImpl::masked_loss(const torch::Tensor& hidden,
                                            const torch::Tensor& positions,
                                            const torch::Tensor& targets, int64_t chunk) const {
  HYDRAMIX_CHECK(hidden.defined() && hidden.dim() == 3 && hidden.size(2) == options().block.d_model,
                 "bert: hidden states must be (B, L, d_model) with d_model = ",
                 options().block.d_model, "; got ", described(hidden), ".");
  for (const auto& [name, t] : {std::pair{"positions", positions}, {"targets", targets}})
    HYDRAMIX_CHECK(t.defined() && t.dim() == 1 && t.scalar_type() == torch::kInt64, "bert: ", name,
                   " must be (m) int64; got ", described(t), ".");
  HYDRAMIX_CHECK(positions.size(0) == targets.size(0),
                 "bert: each masked position has one target; got ", positions.size(0),
                 " positions and ", targets.size(0), " targets.");
  check_numbers("positions", positions, hidden.size(0) * hidden.size(1));
  check_numbers("targets", targets, options().vocab);
  const auto rows = transformed(hidden.flatten(0, 1).index_select(0, positions));
  const auto result =
      linear_cross_entropy(rows, bert->word_table(), decoder_bias, targets, chunk,
                           bert->word_table_copy(), product_type(rows, bert->precision()));
  return {result.sum, result.correct};
}

torch::Tensor BertForMaskedLMImpl::predict(const torch::Tensor& hidden) const {
  HYDRAMIX_CHECK(
      hidden.defined() && hidden.dim() >= 1 && hidden.size(-1) == options().block.d_model,
      "bert: hidden states must be (..., d_model) with d_model = ", options().block.d_model,
      "; got ", hidden.defined() ? concat("shape ", hidden.sizes()) : "an undefined tensor", ".");
  const auto rows = transformed(hidden);
  return project(rows, bert->word_table(), decoder_bias, bert->word_table_copy(),
                 product_type(rows, bert->precision()));
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
  // Without targets the loss is zero, not 0 / 0.
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
