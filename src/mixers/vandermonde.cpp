// SPDX-License-Identifier: Apache-2.0
// Vandermonde mixers: real parts of powers of numbers on the unit circle.
//
//   dft  M_ij = cos(2 pi i j / max_length) / sqrt(max_length) + [i = j]
//   di   M_ij = s sum_d cos(2 pi q_id j) + cos(2 pi k_jd i)      + [i = j]
//   dd   M_ij = s sum_d cos(2 pi e q_id j) - cos(2 pi e k_jd i)  + [i = j],  e = 1e-3
//   with s = 1 / sqrt(2 max_length d).
//
// Paper: section 2.4 and table 2. Cost O(L^2 d): the matrix is built and applied. The published di
// multiplies by row sums and mixes nothing; this one is what it was meant to be (docs/math.md).
#include <cmath>

#include "hydramix/registry.h"
#include "mixers/query_key.h"
#include "ops/cosine.h"

namespace hydramix {
namespace {

// sum_d cos(2 pi q_id j) for angles q (S or 1, H, L, d) -> (S or 1, H, L, L). One d at a time keeps
// memory at the size of the matrix.
torch::Tensor cosine_powers(const torch::Tensor& q) {
  const auto j = torch::arange(q.size(2), q.options());
  torch::Tensor sum;
  for (int64_t d = 0; d < q.size(3); ++d) {
    const auto term = torch::cos(2 * M_PI * q.select(3, d).unsqueeze(-1) * j);
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

double scale(const MixerOptions& o) {
  return 1 / std::sqrt(2.0 * static_cast<double>(o.max_length * o.qk_dim));
}

class VandermondeDft : public Mixer {
 public:
  using Mixer::Mixer;

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    const auto M = cosine_table(rows.L, rows.L, options_.max_length, rows.options) /
                   std::sqrt(static_cast<double>(options_.max_length));
    return with_identity(M).expand({1, heads_.H, rows.L, rows.L});
  }
};

class VandermondeDi : public Mixer {
 public:
  VandermondeDi(Heads heads, const MixerOptions& options) : Mixer(heads, options) {
    // Frequencies over the whole band. At the published zeros every gradient vanishes.
    const std::vector<int64_t> shape{heads.H, options.qk_dim, options.max_length};
    q_bias = register_parameter("q_bias", 0.5 * torch::rand(shape));
    k_bias = register_parameter("k_bias", 0.5 * torch::rand(shape));
  }

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    const auto angles = [&](const torch::Tensor& t) {
      return weight(t, rows).narrow(2, 0, rows.L).transpose(1, 2).unsqueeze(0);  // (1, H, L, d)
    };
    const auto M = cosine_powers(angles(q_bias)) + cosine_powers(angles(k_bias)).transpose(2, 3);
    return with_identity(scale(options_) * M);
  }

 private:
  torch::Tensor q_bias, k_bias;  // (H, d, max_length)
};

class VandermondeDd : public ProjectedQueryKey {
 public:
  VandermondeDd(Heads heads, const MixerOptions& options)
      : ProjectedQueryKey(heads, options, /*silu=*/false) {}

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows&) const override {
    constexpr double kAngle = 1e-3;  // keeps the angles of a long sequence small
    const auto [q, k] = query_key(params);
    const auto M = cosine_powers(kAngle * q) - cosine_powers(kAngle * k).transpose(2, 3);
    return with_identity(scale(options_) * M);
  }
};

HYDRAMIX_REGISTER_MIXER("vandermonde_dft", VandermondeDft, .matrix_class = "DFT",
                        .formula = "cos(2 pi i j / max_length)", .cost = "O(L^2)",
                        .source = "FNet, Lee-Thorp et al. 2022", .extendable = false);

HYDRAMIX_REGISTER_MIXER("vandermonde_di", VandermondeDi, .matrix_class = "Vandermonde",
                        .formula = "sum_d cos(2 pi q_id j) + cos(2 pi k_jd i)", .cost = "O(L^2)",
                        .source = "Hydra, Hwang et al. 2024", .extendable = false);

HYDRAMIX_REGISTER_MIXER("vandermonde_dd", VandermondeDd, .matrix_class = "Vandermonde",
                        .formula = "sum_d cos(2 pi e q_id j) - cos(2 pi e k_jd i)",
                        .cost = "O(L^2)", .source = "Hydra, Hwang et al. 2024",
                        .sequence_aligned = true);

}  // namespace
}  // namespace hydramix
