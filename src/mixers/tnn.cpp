// SPDX-License-Identifier: Apache-2.0
// Toeplitz neural network: a network of the lag gives the kernel, which decays with the distance.
//
//   M_ij = g^|i - j| f(i - j)                          g = filter_decay
//   f(p) = W_5 a(W_4 a(W_3 a(W_2 a(W_1 p + b_1) + b_2) + b_3) + b_4) + b_5
//   a(v) = relu(v / (sqrt(mean(v^2)) + 1e-8))
//
// One output of f per head. The causal form has i >= j only; the bidirectional form has the same
// network at negative lags. The lag is not scaled, so the matrix has no longest sequence.
//
// Qin et al. 2023, Toeplitz Neural Network for Sequence Modeling, with the norm and the depth of
// their code. Cost O(L log L).
#include <cmath>

#include "hydramix/registry.h"
#include "mixers/long_convolution.h"
#include "mixers/position_network.h"

namespace hydramix {
namespace {

torch::Tensor normed_relu(const torch::Tensor& v) {
  // The gradient of a norm is defined at zero, that of a square root is not.
  const auto rms = v.norm(2, {1}, /*keepdim=*/true) / std::sqrt(static_cast<double>(v.size(1)));
  return torch::relu(v / (rms + 1e-8));
}

class Tnn : public LongConvolution {
 public:
  Tnn(Heads heads, const MixerOptions& options, int64_t directions = 1)
      : LongConvolution(heads, without_skip(options)), directions_(directions) {
    network = register_module(
        "network",
        std::make_shared<PositionNetwork>(PositionNetworkShape{
            .inputs = 1, .width = options.filter_width, .layers = 5, .outputs = heads.H}));
  }

 protected:
  torch::Tensor kernels(const Rows& rows) const override {
    std::vector<torch::Tensor> kernels;
    for (int64_t d = 0; d < directions_; ++d) {
      // From lag 0 up, and from lag -1 down.
      const auto distance = torch::arange(d, d + rows.L, rows.options).unsqueeze(1);  // (L, 1)
      const auto f = network->forward(info().name, d == 0 ? distance : -distance, normed_relu);
      kernels.push_back((f * torch::pow(options_.filter_decay, distance)).t());
    }
    return torch::stack(kernels);
  }

 private:
  int64_t directions_;
  std::shared_ptr<PositionNetwork> network;
};

class TnnBidirectional : public Tnn {
 public:
  TnnBidirectional(Heads heads, const MixerOptions& options) : Tnn(heads, options, 2) {}
};

HYDRAMIX_REGISTER_MIXER(
    "tnn", Tnn, .matrix_class = "Toeplitz", .formula = "g^(i - j) f(i - j) for i >= j, f a network",
    .cost = "O(L log L)", .source = "TNN, Qin et al. 2023", .causal = true, .paper_aligned = false,
    .choose = "To compare with kernels that a network computes from the lag, in decoders.",
    .published = "style=mamba headdim=1 d_conv=1");

HYDRAMIX_REGISTER_MIXER(
    "tnn_bidirectional", TnnBidirectional, .matrix_class = "Toeplitz",
    .formula = "g^|i - j| f(i - j), f a network", .cost = "O(L log L)",
    .source = "TNN, Qin et al. 2023", .paper_aligned = false,
    .choose = "To compare with kernels that a network computes from the lag, in encoders.",
    .published = "style=mamba headdim=1 d_conv=1");

}  // namespace
}  // namespace hydramix
