// SPDX-License-Identifier: Apache-2.0
// The block of the paper, the same around every mixer (section 4.1, figure 4):
//
//   u -> in_proj -> [ z | x, the mixer's columns ]
//        x, columns -> depthwise convolution (centred; looking back only for a causal mixer)
//                   -> SiLU on x, and on the columns where the family applies it
//   y = mixer(x),  out = out_proj( rms_norm(y) * silu(z) )
//
// This is style mamba. Other styles, of other models, have less around the mixer:
//
//   plain   [ x, columns ] = in_proj u,     out = out_proj mixer(x)           Transformer
//   gated   [ z, g, x, columns ] = conv(in_proj u),
//                                           out = out_proj( z * mixer(g * x) )  Monarch Mixer
//   bare    x = u,                          out = mixer(x)                   FNet, MLP-Mixer
//
// A gated block may have a side mixer: out = out_proj( z * mixer(g * x) + side(u) ), as in Monarch
// Mixer.
//
// With `separate` the mixer `bidirectional` becomes two whole blocks around its core, one for each
// direction, whose outputs are added or multiplied:
//
//   out = block_f(u) + flip( block_b( flip(u) ) )
//
// The block uses mixers only through their interface. Weight names are those of the published
// checkpoints.
#pragma once

#include "hydramix/projection.h"
#include "hydramix/registry.h"

namespace hydramix {

// "none", and every registered name.
std::vector<std::string> side_mixer_names();

struct BlockOptions {
  std::string mixer = "hydra";
  std::string style = "mamba";
  int64_t d_model = 768;
  double expand = 2;
  int64_t headdim = 64;
  int64_t d_conv = 7;
  bool bias = false;
  bool conv_bias = true;
  bool separate = false;
  bool causal_conv = false;
  std::string side_mixer = "none";
  MixerOptions mixer_options;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("mixer", self.mixer, Choices{mixer_names}, "the sequence mixer, by name");
    v("style", self.style, Choices{"mamba", "plain", "gated", "bare"},
      "parts around the mixer: the paper's block, projections alone, projections with two gates, "
      "or nothing");
    v("d_model", self.d_model, Range{1, 1 << 20}, "channels of the block's input and output");
    v("expand", self.expand, Range{1e-3, 1e3},
      "d_inner = expand d_model, a whole multiple of headdim");
    v("headdim", self.headdim, Range{1, 1 << 20}, "channels P of a head");
    v("d_conv", self.d_conv, Range{0, 1 << 16},
      "width of the convolution (styles mamba and gated); in style gated 0 means none; even widths "
      "reach one position further back");
    v("bias", self.bias, "biases in in_proj and out_proj");
    v("conv_bias", self.conv_bias, "a bias in the convolution");
    v("separate", self.separate,
      "mixer bidirectional: a whole block around the core for each direction, sharing no weights");
    v("causal_conv", self.causal_conv,
      "the convolution looks back only, also around a mixer that is not causal");
    v("side_mixer", self.side_mixer, Choices{side_mixer_names},
      "a second mixer, which reads the block's input as it is (style gated): M2");
    v("mixer_options", self.mixer_options, "options of the mixers");
  }

  // H = expand d_model / headdim, P = headdim. Throws UsageError unless both are integers.
  Heads heads() const;
};

class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const BlockOptions& options);

  // u (B, L, d_model) -> (B, L, d_model), zero at padding. Computed in float32 or float64. bfloat16
  // is computed in float32 and rounded once; on a GPU every stored tensor is rounded. The key is
  // needed where the mixer needs it.
  torch::Tensor forward(const torch::Tensor& u, const Layout& layout = {},
                        const DropoutKey& dropout = {}) const;
  // The matrices that forward(u) applies, without dropout: (S, branches H, L', L'). Of a separate
  // pair of blocks first those forward, then those backward.
  torch::Tensor materialize(const torch::Tensor& u, const Layout& layout = {}) const;

  // The mixer; of a separate pair of blocks that of the forward one.
  const Mixer& mixer() const { return directions_.empty() ? *mixer_ : directions_[0]->mixer(); }
  const BlockOptions& options() const { return options_; }

 private:
  struct Preprocessed {
    torch::Tensor z;       // (B, L, d_inner); undefined in styles without it
    torch::Tensor x;       // (B, L, H, P)
    torch::Tensor params;  // (B, L, params_width)
  };
  void check_input(const torch::Tensor& u, const Layout& layout) const;
  // w (B, L, columns): projected tokens, with their layout.
  Preprocessed preprocess(const torch::Tensor& w, const Layout& tokens) const;
  Preprocessed preprocess_mamba(const torch::Tensor& w, const Layout& tokens) const;
  Preprocessed preprocess_gated(const torch::Tensor& w, const Layout& tokens) const;
  // y (B, L, combined channels), side (B, L, d_inner) or undefined -> (B, L, d_model)
  torch::Tensor postprocess(const torch::Tensor& y, const torch::Tensor& z,
                            const torch::Tensor& side) const;
  // The side mixer's output for u (B, L, d_model); undefined without one.
  torch::Tensor side_output(const torch::Tensor& u, const Layout& tokens) const;
  void check_style() const;
  void check_separate() const;
  torch::Tensor weight(const torch::Tensor& w, const torch::Tensor& input) const;
  torch::Tensor projected(const Projection& projection, const torch::Tensor& x) const;
  // u as it is computed: bfloat16 is widened, but not on a GPU, where kernels compute in float32
  // and round their results.
  static torch::Tensor in_arithmetic(const torch::Tensor& u);
  // in_proj u; u itself in a style without it.
  torch::Tensor projected_input(const torch::Tensor& u) const;
  // forward() and materialize() of a separate pair of blocks; v (B, L, d_model): tokens.
  torch::Tensor forward_separate(const torch::Tensor& u, const Layout& layout,
                                 const DropoutKey& dropout) const;
  torch::Tensor materialize_separate(const torch::Tensor& v, const Layout& tokens) const;
  // rms_norm(mixer(x)) * silu(z) of Hydra as one operation; undefined if it does not support w.
  torch::Tensor fused_hydra(const torch::Tensor& w, const Layout& tokens) const;

  enum class Style { kMamba, kPlain, kGated, kBare };

  BlockOptions options_;
  Style style_;
  Heads heads_;
  bool causal_;                                         // the convolution looks back only
  std::vector<std::shared_ptr<BlockImpl>> directions_;  // forward and backward; empty: one block
  std::shared_ptr<Mixer> mixer_;                        // null with directions
  std::shared_ptr<Mixer> side_mixer_;                   // null without one
  // Null if the style does not have them.
  Projection in_proj{nullptr}, out_proj{nullptr};
  torch::nn::Conv1d conv1d{nullptr};
  torch::Tensor norm_weight;  // (combined channels)
  FiniteCheck finite_;
};
TORCH_MODULE(Block);

}  // namespace hydramix
