// SPDX-License-Identifier: Apache-2.0
// Matrices with learned entries. Shorter sequences use the leading L x L block.
//
//   dense      M^h = M[h] / sqrt(max_length) + I                one per head (the paper's table 2)
//   mlp_mixer  M   = M, or W2 gelu(W1) of rank token_hidden     one for all heads (proposition 2.5)
//
// Cost O(L^2); O(L token_hidden) for the factored mlp_mixer. The paper applies MLP-Mixer's
// nonlinearity to the weight (appendix, "MLP-Mixer"). Applied to the data, as Tolstikhin et al. do,
// the map would not be a matrix.
#include <cmath>

#include "hydramix/registry.h"
#include "mixers/query_key.h"
#include "ops/product.h"

namespace hydramix {
namespace {

class Dense : public Mixer {
 public:
  Dense(Heads heads, const MixerOptions& options) : Mixer(heads, options) {
    M = register_parameter("M", torch::empty({heads.H, options.max_length, options.max_length}));
    torch::nn::init::xavier_normal_(M);
  }

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    const auto leading = weight(M, rows).narrow(1, 0, rows.L).narrow(2, 0, rows.L);
    return with_identity(leading / std::sqrt(static_cast<double>(options_.max_length)))
        .unsqueeze(0);
  }

 private:
  torch::Tensor M;  // (H, max_length, max_length)
};

class MlpMixer : public Mixer {
 public:
  MlpMixer(Heads heads, const MixerOptions& options) : Mixer(heads, options) {
    const int64_t P = options.max_length, hidden = options.token_hidden;
    if (hidden == 0) {
      M = register_parameter("M", torch::empty({P, P}));
      torch::nn::init::xavier_normal_(M);
    } else {
      W1 = register_parameter("W1", torch::empty({hidden, P}));
      W2 = register_parameter("W2", torch::empty({P, hidden}));
      torch::nn::init::xavier_normal_(W1);
      torch::nn::init::xavier_normal_(W2);
    }
  }

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    const auto one = M.defined() ? weight(M, rows).narrow(0, 0, rows.L).narrow(1, 0, rows.L)
                                 : matrix_product(left(rows), right(rows));
    return one.expand({1, heads_.H, rows.L, rows.L});
  }

  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    if (M.defined()) return Mixer::product(x, params, rows);
    const auto v = x.flatten(2);  // (S, L, H P)
    return matrix_product(left(rows), matrix_product(right(rows), v)).view_as(x);
  }

 private:
  torch::Tensor left(const Rows& rows) const { return weight(W2, rows).narrow(0, 0, rows.L); }
  torch::Tensor right(const Rows& rows) const {
    return torch::gelu(weight(W1, rows).narrow(1, 0, rows.L));
  }

  torch::Tensor M;       // (max_length, max_length)
  torch::Tensor W1, W2;  // (token_hidden, max_length), (max_length, token_hidden)
};

HYDRAMIX_REGISTER_MIXER("dense", Dense, .matrix_class = "Dense", .formula = "m_ij",
                        .cost = "O(L^2)", .source = "Hydra, Hwang et al. 2024, table 2",
                        .extendable = false, .paper_aligned = false,
                        .choose =
                            "As a bound on what any linear mixer of one short, fixed length can "
                            "learn: every entry is free.");

HYDRAMIX_REGISTER_MIXER("mlp_mixer", MlpMixer, .matrix_class = "Dense",
                        .formula = "m_ij, one matrix for all heads", .cost = "O(L^2)",
                        .source = "MLP-Mixer, Tolstikhin et al. 2021", .extendable = false,
                        .paper_aligned = false,
                        .choose =
                            "To compare with MLP-Mixer as the Hydra paper reads it: one free "
                            "matrix for all heads, at one fixed length.");

}  // namespace
}  // namespace hydramix
