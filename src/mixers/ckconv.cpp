// SPDX-License-Identifier: Apache-2.0
// CKConv: a causal convolution whose kernel is a continuous function of the relative position,
// given by a network of sines (a SIREN).
//
//   M_ij = k(1 - 2 (i - j) / (Lmax - 1)) for i >= j
//   k(p) = W_3 s(W_2 s(W_1 p + b_1) + b_2) + b_3,   s(v) = sin(w v),   w = filter_frequency
//
// Lag 0 is at p = 1, lag Lmax - 1 at p = -1; longer sequences continue beyond p = -1. One kernel
// per head. The published layer also mixes channels, which is the block's part here, and normalises
// its weights, which does not change the set of kernels. Its kernel has a sampling rate; here
// positions are one apart at every length.
//
// Romero et al. 2021, CKConv: Continuous Kernel Convolution for Sequential Data; the initial
// weights are those of Sitzmann et al. 2020, Implicit Neural Representations with Periodic
// Activation Functions. Cost O(L log L).
#include <algorithm>
#include <cmath>

#include "hydramix/registry.h"
#include "mixers/long_convolution.h"
#include "mixers/position_network.h"

namespace hydramix {
namespace {

class CkConv : public LongConvolution {
 public:
  CkConv(Heads heads, const MixerOptions& options) : LongConvolution(heads, without_skip(options)) {
    network = register_module(
        "network",
        std::make_shared<PositionNetwork>(PositionNetworkShape{
            .inputs = 1, .width = options.filter_width, .layers = 3, .outputs = heads.H}));
    initialize_as_siren();
  }

 protected:
  torch::Tensor kernels(const Rows& rows) const override {
    const double step = 2.0 / static_cast<double>(std::max<int64_t>(options_.max_length - 1, 1));
    const auto p = 1 - step * torch::arange(rows.L, rows.options).unsqueeze(1);  // (L, 1)
    const auto sine = [&](const torch::Tensor& v) {
      return torch::sin(options_.filter_frequency * v);
    };
    return network->forward(info().name, p, sine).t().unsqueeze(0);
  }

 private:
  // Every layer's sines then have arguments of the same spread, whatever the width and w.
  void initialize_as_siren() {
    torch::NoGradGuard no_grad;
    for (std::size_t n = 0; n < network->layers().size(); ++n) {
      auto [weight, bias] = network->layers()[n];
      const double in = static_cast<double>(weight.size(1));
      const double bound = n == 0 ? 1 : std::sqrt(6 / in) / options_.filter_frequency;
      weight.uniform_(-bound, bound);
      bias.uniform_(-1, 1);
    }
  }

  std::shared_ptr<PositionNetwork> network;
};

HYDRAMIX_REGISTER_MIXER("ckconv", CkConv, .matrix_class = "Toeplitz",
                        .formula = "k(1 - 2 (i - j) / (Lmax - 1)) for i >= j, k a SIREN",
                        .cost = "O(L log L)", .source = "CKConv, Romero et al. 2021",
                        .causal = true, .paper_aligned = false,
                        .choose =
                            "To compare with continuous kernels, whose reach is not limited by a "
                            "learned table of lags.",
                        .published = "style=plain expand=1 headdim=1");

}  // namespace
}  // namespace hydramix
