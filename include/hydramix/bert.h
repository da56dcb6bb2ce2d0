// SPDX-License-Identifier: Apache-2.0
// The masked-language-model encoder of the paper: BERT's shape with any mixer for attention, no
// position embeddings, no MLP layers.
//
//   e      = LayerNorm_1e-12( word[id] + type[type_id] )
//   x      = LayerNorm_1e-5( x + block(x) )                       per layer
//   logits = LayerNorm_1e-12( gelu( dense(x) ) ) word^T + bias
//
// Weight names are those of the published checkpoints.
#pragma once

#include "hydramix/block.h"

namespace hydramix {

struct BertOptions {
  int64_t vocab = 30522;
  int64_t type_vocab = 2;
  int64_t layers = 23;
  bool pooler = false;
  BlockOptions block;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("vocab", self.vocab, Range{1, 1 << 26}, "size of the vocabulary");
    v("type_vocab", self.type_vocab, Range{1, 1 << 16}, "number of segment types");
    v("layers", self.layers, Range{1, 4096}, "number of blocks");
    v("pooler", self.pooler,
      "holds the pooler's weights too, which the masked-LM loss does not use");
    v("block", self.block, "the block of every layer");
  }
};

class BertForMaskedLMImpl : public torch::nn::Module {
 public:
  explicit BertForMaskedLMImpl(const BertOptions& options);

  // ids, type_ids (B, L) int64 -> hidden states (B, L, d_model). Undefined type_ids are all zero.
  torch::Tensor encode(const torch::Tensor& ids, const torch::Tensor& type_ids,
                       const Layout& layout = {}) const;
  // hidden states (..., d_model) -> logits (..., vocab).
  torch::Tensor predict(const torch::Tensor& hidden) const;
  // Mean cross-entropy over the places whose label is above 0; label 0 is [PAD], never a target.
  static torch::Tensor loss(const torch::Tensor& logits, const torch::Tensor& labels);

  const BertOptions& options() const { return options_; }

 private:
  struct Layer {
    Block mixer;
    torch::nn::LayerNorm norm;
  };

  void check_ids(const char* name, const torch::Tensor& ids, int64_t bound) const;

  BertOptions options_;
  torch::nn::Embedding word_embeddings{nullptr}, token_type_embeddings{nullptr};
  torch::nn::LayerNorm embedding_norm{nullptr}, transform_norm{nullptr};
  torch::nn::Linear transform{nullptr};
  torch::Tensor decoder_bias;  // (vocab)
  std::vector<Layer> layers_;
};
TORCH_MODULE(BertForMaskedLM);

}  // namespace hydramix
