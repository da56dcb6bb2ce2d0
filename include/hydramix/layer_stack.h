// SPDX-License-Identifier: Apache-2.0
// The layers of an encoder, for text and for images: a block and, if wanted, an MLP.
//
//   x = LayerNorm( x + block(x) )                            norm: post
//   x = x + block( LayerNorm(x) )                            norm: pre
//       and the same again with the MLP; pre has one more LayerNorm after the last layer
//
// In training, output_dropout drops channels of what block and MLP add. Stochastic depth drops what
// they add to a whole sequence, with a probability that rises linearly over the layers from 0 to
// stochastic_depth, and scales the rest (Huang, Sun, Liu, Sedra & Weinberger 2016, Deep Networks
// with Stochastic Depth).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hydramix/block.h"
#include "hydramix/dropout_key.h"
#include "hydramix/mlp.h"

namespace hydramix {

struct LayerStackOptions {
  int64_t layers = 1;
  bool pre_norm = false;
  double norm_eps = 1e-5;
  double output_dropout = 0;
  double stochastic_depth = 0;
  bool recompute = false;  // keep only the input of each layer for the backward pass
  MlpOptions mlp;
  BlockOptions block;
};

class LayerStackImpl : public torch::nn::Module {
 public:
  explicit LayerStackImpl(const LayerStackOptions& options);

  // x (B, L, d_model) -> (B, L, d_model) in the same dtype. In training mode with any dropout > 0
  // the key is needed. `observe`, if given, is called with the output of every layer.
  torch::Tensor forward(torch::Tensor x, const Layout& layout, const DropoutKey& dropout,
                        const std::function<void(const torch::Tensor&)>& observe = {}) const;

 private:
  struct Layer {
    bool pre_norm;
    double output_dropout, depth_dropout;
    Block mixer;
    torch::nn::LayerNorm norm;
    Mlp mlp{nullptr};  // null without an MLP
    torch::nn::LayerNorm mlp_norm{nullptr};

    torch::Tensor forward(const torch::Tensor& x, const Layout& layout,
                          const DropoutKey& dropout) const;
    // y, the output of the block (half 0) or of the MLP (half 1), with dropout in training.
    torch::Tensor dropped(const torch::Tensor& y, int64_t half, const Layout& layout,
                          const DropoutKey& key) const;
    std::vector<torch::Tensor> parameters() const;
  };

  bool recompute_;
  std::vector<Layer> layers_;
  torch::nn::LayerNorm final_norm{nullptr};  // null unless pre-norm
};
TORCH_MODULE(LayerStack);

}  // namespace hydramix
