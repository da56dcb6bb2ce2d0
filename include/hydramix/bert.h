// SPDX-License-Identifier: Apache-2.0
// The masked-language model of the paper: its encoder (hydramix/bert_encoder.h), and
//
//   logits = LayerNorm( gelu( dense(x) ) ) word^T + bias
//
// For training, masked_loss() runs this head on the masked positions only. Weight names are those
// of the published checkpoints.
#pragma once

#include "hydramix/bert_encoder.h"

namespace hydramix {

struct MaskedLoss {
  torch::Tensor sum;  // () float64, differentiable: cross-entropy summed over the masked positions
  torch::Tensor correct;  // () int64: positions where the largest logit is the target's
};

class BertForMaskedLMImpl : public torch::nn::Module {
 public:
  explicit BertForMaskedLMImpl(const BertOptions& options);

  // As BertEncoderImpl::encode().
  torch::Tensor encode(const torch::Tensor& ids, const torch::Tensor& type_ids,
                       const Layout& layout = {}, const DropoutKey& dropout = {},
                       const std::function<void(const torch::Tensor&)>& observe = {}) const {
    return bert->encode(ids, type_ids, layout, dropout, observe);
  }
  void check_ids(const torch::Tensor& ids, const torch::Tensor& type_ids) const {
    bert->check_ids(ids, type_ids);
  }
  void set_precision(torch::ScalarType precision) { bert->set_precision(precision); }
  const BertOptions& options() const { return bert->options(); }
  const BertEncoder& encoder() const { return bert; }

  // Applies the head at `positions` (m) int64 of hidden (B, L, d_model), which index B L, with
  // targets (m) int64. Never more than chunk x vocab logits exist, forward and backward.
  MaskedLoss masked_loss(const torch::Tensor& hidden, const torch::Tensor& positions,
                         const torch::Tensor& targets, int64_t chunk = 1024) const;

  // The head without chunks. hidden states (..., d_model) -> logits (..., vocab).
  torch::Tensor predict(const torch::Tensor& hidden) const;
  // Mean cross-entropy over the positions whose label is above 0; label 0 is [PAD], never a target.
  static torch::Tensor loss(const torch::Tensor& logits, const torch::Tensor& labels);

 private:
  // hidden (..., d_model) -> the input of the decoder's linear layer.
  torch::Tensor transformed(const torch::Tensor& hidden) const;

  BertEncoder bert{nullptr};
  Projection transform{nullptr};
  torch::nn::LayerNorm transform_norm{nullptr};
  torch::Tensor decoder_bias;  // (vocab)
};
TORCH_MODULE(BertForMaskedLM);

// The number of parameters of a model with these options, counted without building all of it.
int64_t parameter_count(const BertOptions& options);

}  // namespace hydramix
