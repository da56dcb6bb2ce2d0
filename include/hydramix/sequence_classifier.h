// SPDX-License-Identifier: Apache-2.0
// Maps a sentence or a pair of sentences to class logits or to a score, as in fine-tuning BERT; or
// each token to logits; or a sentence to a vector.
//
//   row    = hidden state of [CLS], the first token; or the mean over the sequence's tokens
//   logits = classifier( dropout( tanh( dense(row) ) ) )
//   logits = classifier( dropout(h) ) of each token's hidden state h, with pooling "tokens"
//   vector = row, with no outputs
//
// Weight names are those of published BERT classifiers: bert.*, bert.pooler.dense.*,
// classifier.weight, classifier.bias. Only the first kind has a pooler, only vectors have no
// classifier.
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
    v("outputs", self.outputs, Range{0, 1 << 20},
      "number of classes; 1: a score; 0: the vector itself");
    v("pooling", self.pooling, Choices{"cls", "mean", "tokens"},
      "vector of a sequence: its first token, or the mean of all (for causal mixers); tokens: a "
      "row "
      "for each token");
    v("dropout", self.dropout, Range{0.0, 0.99},
      "share of channels dropped before the last layer in training");
    v("max_length", self.max_length, Range{0, 1 << 24},
      "tokens to which texts were truncated in training; 0: unknown");
  }
};

class SequenceClassifierImpl : public torch::nn::Module {
 public:
  // Whether the encoder gets a pooler depends on these options alone.
  SequenceClassifierImpl(const BertOptions& encoder, const ClassifierOptions& options);

  // ids, type_ids (B, L) int64 -> logits (S, outputs), one row for each nonempty sequence of the
  // layout (each row of B when full), in the dtype of the weights. With pooling "tokens" it has a
  // row for each token, sequence by sequence; without outputs the rows are vectors (S, d_model). On
  // a GPU these last layers are float32, whatever the precision of the products. Undefined type_ids
  // are all zero. In training mode (train(), eval()) with any dropout > 0 the key is needed.
  torch::Tensor forward(const torch::Tensor& ids, const torch::Tensor& type_ids,
                        const Layout& layout = {}, const DropoutKey& dropout = {}) const;
  // The layers after the encoder. hidden (B, L, d_model), what encode() returns.
  torch::Tensor predict(const torch::Tensor& hidden, const Layout& layout = {},
                        const DropoutKey& dropout = {}) const;
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

  // From now on forward() returns logits * scale + shift.
  void rescale(double scale, double shift);

  // Copies the encoder's weights, and the pooler's where there is one, from a BertForMaskedLM or
  // another classifier; the last layer stays as it is. Throws Error, before any change, when the
  // encoders differ.
  void take_encoder(const torch::nn::Module& pretrained);

  // The encoder's.
  void set_precision(torch::ScalarType precision) { bert->set_precision(precision); }
  const BertOptions& encoder_options() const { return bert->options(); }
  const BertEncoder& encoder() const { return bert; }
  const ClassifierOptions& options() const { return options_; }

 private:
  // x (S, d_model) or (n, d_model) -> the same shape, some channels zero
  torch::Tensor dropped(const torch::Tensor& x, const Sequences& sequences,
                        const DropoutKey& key) const;

  ClassifierOptions options_;
  BertEncoder bert{nullptr};
  torch::nn::Linear classifier{nullptr};  // null without outputs
};
TORCH_MODULE(SequenceClassifier);

}  // namespace hydramix
