// SPDX-License-Identifier: Apache-2.0
// The channel-mixing layer that Transformers put after every sequence mixer:
//
//   gelu   y = wo gelu(wi x)                       wi (width x d_model), wo (d_model x width)
//   glu    y = wo ( gelu(a) * b ),  [a; b] = wi x  wi (2 width x d_model)
//
// In training, `dropout` drops channels of what wo multiplies.
//
// With blocks > 1 both matrices are block-diagonal with a transposition between them. Without the
// nonlinearity wo wi is then a Monarch matrix (Monarch Mixer, Fu et al. 2023). It has 1 / blocks of
// the weights, and every output depends on every input as long as blocks <= width / blocks.
#pragma once

#include "hydramix/dropout_key.h"
#include "hydramix/layout.h"
#include "hydramix/options.h"
#include "hydramix/rounded_copy.h"

namespace hydramix {

struct MlpOptions {
  std::string kind = "none";
  int64_t width = 3072;
  int64_t blocks = 1;
  bool bias = true, input_bias = true;
  double dropout = 0;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("kind", self.kind, Choices{"none", "gelu", "glu"},
      "an MLP after every mixer: none, GELU, or gated by GELU");
    v("width", self.width, Range{1, 1 << 24}, "inner channels of the MLP");
    v("blocks", self.blocks, Range{1, 1 << 16},
      "number of diagonal blocks of its matrices (Monarch); divides d_model and width");
    v("bias", self.bias, "biases in the MLP");
    v("input_bias", self.input_bias, "a bias after its first matrix too; false: M2");
    v("dropout", self.dropout, Range{0.0, 0.99},
      "share of its inner channels dropped in training: M2");
  }
};

class MlpImpl : public torch::nn::Module, public HasRoundedCopies {
 public:
  MlpImpl(int64_t d_model, const MlpOptions& options);
  // x (..., d_model) -> (..., d_model). In training mode with dropout > 0, x is (B, L, d_model) and
  // the key is needed.
  torch::Tensor forward(const torch::Tensor& x, const Layout& layout = {},
                        const DropoutKey& dropout = {}) const;

  std::vector<std::pair<torch::Tensor, RoundedCopy>> rounded_copies() const override {
    if (options_.blocks > 1) return {};
    return {{wi, wi_copy_}, {wo, wo_copy_}};
  }

 private:
  torch::Tensor multiply(const torch::Tensor& x, const torch::Tensor& weight,
                         const torch::Tensor& bias, const RoundedCopy& copy) const;

  MlpOptions options_;
  torch::Tensor wi, wo;            // (out, in), or (blocks, out / blocks, in / blocks)
  torch::Tensor wi_bias, wo_bias;  // (out); undefined without a bias
  RoundedCopy wi_copy_, wo_copy_;
};
TORCH_MODULE(Mlp);

}  // namespace hydramix
