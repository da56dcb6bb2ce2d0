// SPDX-License-Identifier: Apache-2.0
// Low-rank mixers: M = Q K^T, applied as Q (K^T x) in O(L d).
//
//   low_rank_di, low_rank_dd       M_ij = q_i . k_j / sqrt(max_length d) + [i = j]
//   linear_attention               M_ij = phi(q_i) . phi(k_j) / sum_m phi(q_i) . phi(k_m)
//   linear_attention_unnormalized  M_ij = phi(q_i) . phi(k_j)                 phi(u) = elu(u) + 1
//
// Paper: proposition 2.6 and table 2.
#include <cmath>

#include "hydramix/registry.h"
#include "mixers/query_key.h"
#include "ops/product.h"

namespace hydramix {
namespace {

// Q (K^T x): q, k (S or 1, H, L, d), x (S, L, H, P).
torch::Tensor associate(const QueryKey& qk, const torch::Tensor& x) {
  const auto summary =
      matrix_product(qk.k.transpose(2, 3), x.permute({0, 2, 1, 3}));  // (S, H, d, P)
  return matrix_product(qk.q, summary).permute({0, 2, 1, 3});
}

torch::Tensor outer(const QueryKey& qk) { return matrix_product(qk.q, qk.k.transpose(2, 3)); }

QueryKey scaled(QueryKey qk, int64_t max_length) {
  qk.q = qk.q / std::sqrt(static_cast<double>(max_length * qk.q.size(3)));
  return qk;
}

class LowRankDi : public LearnedQueryKey {
 public:
  using LearnedQueryKey::LearnedQueryKey;

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    return with_identity(outer(scaled(query_key(rows), options_.max_length)));
  }
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor&,
                        const Rows& rows) const override {
    return associate(scaled(query_key(rows), options_.max_length), x) + x;
  }
};

class LowRankDd : public ProjectedQueryKey {
 public:
  LowRankDd(Heads heads, const MixerOptions& options)
      : ProjectedQueryKey(heads, options, /*silu=*/true) {}

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows&) const override {
    return with_identity(outer(scaled(query_key(params), options_.max_length)));
  }
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows&) const override {
    return associate(scaled(query_key(params), options_.max_length), x) + x;
  }
};

class LinearAttentionUnnormalized : public ProjectedQueryKey {
 public:
  LinearAttentionUnnormalized(Heads heads, const MixerOptions& options)
      : ProjectedQueryKey(heads, options, /*silu=*/false) {}

 protected:
  // phi of both; keys at padding are set to zero, because phi(0) is one.
  virtual QueryKey features(const torch::Tensor& params, const Rows& rows) const {
    auto [q, k] = query_key(params);
    q = torch::elu(q) + 1;
    k = torch::elu(k) + 1;
    if (rows.valid.defined()) k = k.masked_fill(~rows.valid.unsqueeze(1).unsqueeze(3), 0);
    return {q, k};
  }
  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    return outer(features(params, rows));
  }
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    return associate(features(params, rows), x);
  }
};

class LinearAttention : public LinearAttentionUnnormalized {
 public:
  using LinearAttentionUnnormalized::LinearAttentionUnnormalized;

 protected:
  QueryKey features(const torch::Tensor& params, const Rows& rows) const override {
    constexpr double kFloor =
        1e-6;  // of Katharopoulos et al.: keeps a row finite when phi(q) vanishes
    auto [q, k] = LinearAttentionUnnormalized::features(params, rows);
    return {q / (matrix_product(q, k.sum(2).unsqueeze(3)) + kFloor), k};
  }
};

HYDRAMIX_REGISTER_MIXER(
    "low_rank_di", LowRankDi, .matrix_class = "Low-rank", .formula = "q_i . k_j", .cost = "O(L)",
    .source = "Hydra, Hwang et al. 2024, section 2.3: W_Q W_K^T", .extendable = false,
    .choose = "To reproduce table 2 of the Hydra paper: a learned matrix of rank d.");

HYDRAMIX_REGISTER_MIXER(
    "low_rank_dd", LowRankDd, .matrix_class = "Low-rank", .formula = "q_i . k_j", .cost = "O(L)",
    .source = "Hydra, Hwang et al. 2024, table 2", .sequence_aligned = true, .paper_aligned = true,
    .choose = "To reproduce table 2 of the Hydra paper: queries and keys without a softmax.");

HYDRAMIX_REGISTER_MIXER(
    "linear_attention", LinearAttention, .matrix_class = "Low-rank",
    .formula = "phi(q_i) . phi(k_j) / sum_m phi(q_i) . phi(k_m)", .cost = "O(L)",
    .source = "Linear attention, Katharopoulos et al. 2020", .sequence_aligned = true,
    .row_normalized = true, .paper_aligned = true,
    .choose =
        "For queries and keys at linear cost, where the distance between tokens does not matter.",
    .published = "style=plain expand=1 headdim=64 bias=true mixer_options.qk_dim=64");

HYDRAMIX_REGISTER_MIXER(
    "linear_attention_unnormalized", LinearAttentionUnnormalized, .matrix_class = "Low-rank",
    .formula = "phi(q_i) . phi(k_j), phi = elu + 1", .cost = "O(L)",
    .source = "Linear attention, Katharopoulos et al. 2020", .sequence_aligned = true,
    .paper_aligned = true,
    .choose =
        "As linear_attention, where a norm after the mixer makes the normaliser unnecessary.");

}  // namespace
}  // namespace hydramix
