// SPDX-License-Identifier: Apache-2.0
// The long convolution of M2-BERT: Hyena's filter in both directions, without gates.
//
//   M_ij = k_{i-j} for i >= j,   k'_{j-i-1} for i < j,   + D [i = j]        k, k': hyena_filter.h
//
// A block of M2-BERT has two of these, y = D_{x2} T_1 D_{x1} v + T_2 u: the mixer between the gates
// (style gated) and the side mixer on the block's input u.
//
// Fu et al. 2023, Monarch Mixer: A Simple Sub-Quadratic GEMM-Based Architecture. Cost O(L log L).
#include "hydramix/registry.h"
#include "mixers/hyena_filter.h"
#include "mixers/long_convolution.h"

namespace hydramix {
namespace {

class M2Conv : public LongConvolution {
 public:
  M2Conv(Heads heads, const MixerOptions& options) : LongConvolution(heads, options) {
    filter = register_module("filter",
                             std::make_shared<HyenaFilter>(heads.H, /*directions=*/2, options));
    // BERT's initial weights: the published model draws those of every linear layer so.
    torch::NoGradGuard no_grad;
    for (const auto& network : filter->networks())
      for (auto [weight, bias] : network->layers()) {
        weight.normal_(0, 0.02);
        if (bias.defined()) bias.zero_();
      }
  }

 protected:
  torch::Tensor kernels(const Rows& rows) const override {
    return filter->kernels(info().name, rows);
  }

 private:
  std::shared_ptr<HyenaFilter> filter;
};

HYDRAMIX_REGISTER_MIXER("m2_conv", M2Conv, .matrix_class = "Toeplitz",
                        .formula = "k_{i-j} for i >= j, k'_{j-i-1} for i < j, networks of sines",
                        .cost = "O(L log L)", .source = "Monarch Mixer, Fu et al. 2023",
                        .paper_aligned = false,
                        .choose = "To reproduce M2-BERT, which uses it twice in each block.",
                        .published =
                            "style=gated side_mixer=m2_conv expand=1 headdim=1 d_conv=3 "
                            "causal_conv=true bias=true mixer_options.filter_width=128");

}  // namespace
}  // namespace hydramix
