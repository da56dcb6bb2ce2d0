// SPDX-License-Identifier: Apache-2.0
// The token-mixing MLP of MLP-Mixer, a baseline that is not a matrix: the nonlinearity is applied
// to the data. For each channel x in R^L,
//
//   y = W2 gelu(W1 x + b1) + b2
//
// Tolstikhin et al. 2021, "MLP-Mixer: An all-MLP Architecture for Vision", equation 1 (the residual
// and the norm are the model's). All channels share the weights. A sequence shorter than max_length
// uses the first columns of W1 and the first rows of W2 and b2. GELU is exact (erf). Cost
// O(L token_hidden). `mlp_mixer` is the matrix W2 gelu(W1) that Hydra's paper makes of it.
#include "hydramix/registry.h"
#include "ops/product.h"

namespace hydramix {
namespace {

class MlpMixerNonlinear : public Mixer {
 public:
  MlpMixerNonlinear(Heads heads, const MixerOptions& options) : Mixer(heads, options) {
    const int64_t P = options.max_length;
    const int64_t hidden = options.token_hidden == 0 ? P : options.token_hidden;
    W1 = register_parameter("W1", torch::empty({hidden, P}));
    W1_bias = register_parameter("W1_bias", torch::zeros({hidden}));
    W2 = register_parameter("W2", torch::empty({P, hidden}));
    W2_bias = register_parameter("W2_bias", torch::zeros({P}));
    torch::nn::init::xavier_normal_(W1);
    torch::nn::init::xavier_normal_(W2);
  }

 protected:
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor&,
                        const Rows& rows) const override {
    const int64_t L = rows.L;
    const auto v = x.flatten(2);  // (S, L, H P)
    const auto inner =
        matrix_product(weight(W1, rows).narrow(1, 0, L), v) + weight(W1_bias, rows).unsqueeze(1);
    const auto y = matrix_product(weight(W2, rows).narrow(0, 0, L), torch::gelu(inner)) +
                   weight(W2_bias, rows).narrow(0, 0, L).unsqueeze(1);
    return y.view_as(x);
  }

 private:
  torch::Tensor W1, W1_bias;  // (token_hidden, max_length), (token_hidden)
  torch::Tensor W2, W2_bias;  // (max_length, token_hidden), (max_length)
};

HYDRAMIX_REGISTER_MIXER(
    "mlp_mixer_nonlinear", MlpMixerNonlinear, .matrix_class = "Not a matrix (nonlinear)",
    .formula = "W2 gelu(W1 x + b1) + b2", .cost = "O(L^2)",
    .source = "MLP-Mixer, Tolstikhin et al. 2021", .extendable = false, .linear = false,
    .choose = "To compare with MLP-Mixer as published, with its nonlinearity over the tokens.",
    .published = "style=bare expand=1 mixer_options.max_length=196 mixer_options.token_hidden=384");

}  // namespace
}  // namespace hydramix
