// SPDX-License-Identifier: Apache-2.0
// Maps a sentence or a pair of sentences to class logits or to a score, as in fine-tuning BERT.
//
//   row    = hidden state of [CLS], the first token; or the mean over the sequence's tokens
//   logits = classifier( dropout( tanh( dense(row) ) ) )
//
// Weight names are those of published BERT classifiers: bert.*, bert.pooler.dense.*,
// classifier.weight, classifier.bias.
#pragma once

#include "hydramix/bert_encoder.h"

namespace hydramix {

struct ClassifierOptions {
  int64_t outputs = 2;
  std::string pooling = "cls";
  double dropout = 0.1;
  int64_t max_length = 0;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("outputs", self.outputs, Range{1, 1 << 20}, "number of classes; 1: a score");
    v("pooling", self.pooling, Choices{"cls", "mean"},
      "vector of a sequence: its first token, or the mean of all (for causal mixers)");
    v("dropout", self.dropout, Range{0.0, 0.99},
      "share of channels dropped before the last layer in training");
    v("max_length", self.max_length, Range{0, 1 << 24},
      "tokens to which texts were truncated in training; 0: unknown");
  }
};

class SequenceClassifierImpl : public torch::nn::Module {
 public:
  // The encoder always gets a pooler, whatever its options.
  SequenceClassifierImpl(const BertOptions& encoder, const ClassifierOptions& options);

  // ids, type_ids (B, L) int64 -> logits (S, outputs), one row for each nonempty sequence of the
  // layout (each row of B when full), in the dtype of the weights. On a GPU these last layers are
  // float32, whatever the precision of the products. Undefined type_ids are all zero. In training
  // mode (train(), eval()) with any dropout > 0 the key is needed.
  torch::Tensor forward(const torch::Tensor& ids, const torch::Tensor& type_ids,
                        const Layout& layout = {}, const DropoutKey& dropout = {}) const;
  // As BertEncoderImpl::encode().
  torch::Tensor encode(const torch::Tensor& ids, const torch::Tensor& type_ids,
                       const Layout& layout = {}, const DropoutKey& dropout = {},
                       const std::function<void(const torch::Tensor&)>& observe = {}) const {
    return bert->encode(ids, type_ids, layout, dropout, observe);
  }
  // Throws unless ids and type_ids (or undefined) can be encoded; see BertEncoderImpl.
  void check_ids(const torch::Tensor& ids, const torch::Tensor& type_ids) const {
    bert->check_ids(ids, type_ids);
  }

  // Copies the encoder's weights, and the pooler's where there is one, from a BertForMaskedLM or
  // another classifier; the last layer stays as it is. Throws Error, before any change, when the
  // encoders differ.
  void take_encoder(const torch::nn::Module& pretrained);

  // The encoder's.
  void set_precision(torch::ScalarType precision) { bert->set_precision(precision); }
  const BertOptions& encoder_options() const { return bert->options(); }
  const ClassifierOptions& options() const { return options_; }

 private:
  // x (S, d_model) -> the same shape, some channels zero
  torch::Tensor dropped(const torch::Tensor& x, const DropoutKey& key) const;

  ClassifierOptions options_;
  BertEncoder bert{nullptr};
  torch::nn::Linear classifier{nullptr};
};
TORCH_MODULE(SequenceClassifier);

}  // namespace hydramix
