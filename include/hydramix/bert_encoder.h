// SPDX-License-Identifier: Apache-2.0
// The encoder of the paper: BERT's, with any mixer in place of attention. By default it has no
// position embeddings and no MLP layers.
//
//   e      = dropout( LayerNorm( word[id] + type[type_id] + position[index in sequence] ) )
//   x      = layers(e)                                            see layer_stack.h
//   pooled = tanh( dense(row) )                                   for one row per sequence
//
// Training needs no padding: encode() takes the tokens of all sequences end to end, ids (1, n) with
// Layout::packed. Weight names are those of the published checkpoints.
#pragma once

#include <functional>

#include "hydramix/layer_stack.h"

namespace hydramix {

struct BertOptions {
  int64_t vocab = 30522;
  int64_t type_vocab = 2;
  int64_t layers = 23;
  bool pooler = false;
  std::string norm = "post";
  double norm_eps = 1e-5;
  double embedding_norm_eps = 1e-12;
  int64_t positions = 0;
  double dropout = 0;
  double output_dropout = 0;
  bool recompute = false;
  double initial_deviation = 0.02;
  std::string initial_distribution = "normal";
  MlpOptions mlp;
  BlockOptions block;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("vocab", self.vocab, Range{1, 1 << 26}, "size of the vocabulary");
    v("type_vocab", self.type_vocab, Range{1, 1 << 16}, "number of segment types");
    v("layers", self.layers, Range{1, 4096}, "number of blocks");
    v("pooler", self.pooler, "also have a pooler, which the masked-LM loss does not use");
    v("norm", self.norm, Choices{"post", "pre"},
      "LayerNorm after every residual sum, or before every block and once at the end");
    v("norm_eps", self.norm_eps, Range{0.0, 1.0},
      "added to the variance in the LayerNorms of layers; BERT's is 1e-12");
    v("embedding_norm_eps", self.embedding_norm_eps, Range{0.0, 1.0},
      "added to the variance in the LayerNorms of the embeddings and the masked-LM head");
    v("positions", self.positions, Range{0, 1 << 24},
      "number of learned position embeddings; 0: none");
    v("dropout", self.dropout, Range{0.0, 0.99}, "share of embedding channels dropped in training");
    v("output_dropout", self.output_dropout, Range{0.0, 0.99},
      "share of the output channels of every block and MLP dropped in training (BERT)");
    v("recompute", self.recompute,
      "keep only the input of each layer for the backward pass and recompute the rest");
    v("initial_deviation", self.initial_deviation, Range{1e-6, 1.0},
      "standard deviation of initial linear and embedding weights; BERT's suits a d_model of 768");
    v("initial_distribution", self.initial_distribution, Choices{"normal", "truncated_normal"},
      "distribution of initial linear and embedding weights; truncated_normal: drawn again beyond "
      "two deviations");
    v("mlp", self.mlp, "the MLP after every block");
    v("block", self.block, "the block of every layer");
  }
};

// Models own one under the name "bert", and initialise it together with their heads.
class BertEncoderImpl : public torch::nn::Module {
 public:
  explicit BertEncoderImpl(const BertOptions& options);

  // ids, type_ids (B, L) int64 -> hidden states (B, L, d_model). Undefined type_ids are all zero.
  // In training mode (train(), eval()) with any dropout > 0 the key is needed. `observe`, if given,
  // is called with the embedding and then with the output of every layer.
  torch::Tensor encode(const torch::Tensor& ids, const torch::Tensor& type_ids,
                       const Layout& layout = {}, const DropoutKey& dropout = {},
                       const std::function<void(const torch::Tensor&)>& observe = {}) const;
  // Throws unless ids and type_ids (or undefined) can be encoded. encode() calls it for tensors on
  // the CPU. On a GPU it would synchronise, so call it before uploading.
  void check_ids(const torch::Tensor& ids, const torch::Tensor& type_ids) const;
  // rows (S, d_model) -> (S, d_model), with options.pooler.
  torch::Tensor pool(const torch::Tensor& rows) const;

  // The type of the products in layers and heads: float32, the default, or on a GPU bfloat16, which
  // the activations between layers then have too. Weights and their gradients stay float32.
  void set_precision(torch::ScalarType precision);
  torch::ScalarType precision() const { return precision_; }

  const torch::Tensor& word_table() const { return word_embeddings->weight; }  // (vocab, d_model)
  const RoundedCopy& word_table_copy() const { return word_embeddings->copy(); }
  const BertOptions& options() const { return options_; }

 private:
  torch::Tensor embed(const torch::Tensor& ids, const torch::Tensor& type_ids, const Layout& layout,
                      const DropoutKey& dropout) const;

  BertOptions options_;
  torch::ScalarType precision_ = torch::kFloat32;
  TiedEmbedding word_embeddings{nullptr};
  torch::nn::Embedding token_type_embeddings{nullptr}, position_embeddings{nullptr};
  torch::nn::LayerNorm embedding_norm{nullptr};
  LayerStack encoder{nullptr};
  torch::nn::Linear pooler{nullptr};
};
TORCH_MODULE(BertEncoder);

// The longest sequence that such a model accepts; 0: any.
int64_t longest_sequence(const BertOptions& options);

}  // namespace hydramix
