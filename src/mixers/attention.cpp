// SPDX-License-Identifier: Apache-2.0
// Softmax attention; queries and keys are learned per position (di) or projected:
//
//   attention                    M_ij = softmax_j(q_i . k_j / sqrt(d))             Transformers
//   attention_causal             M_ij = softmax_{j <= i}(q_i . k_j / sqrt(d))      their decoders
//   attention_di, attention_dd   M_ij = softmax_j(q_i . k_j / sqrt(d)) + [i = j]   the paper's
//   table 2
//
// Paper: section 2.3 and table 2. Cost O(L^2) in time and O(L) in memory: for long sequences the
// matrix is never stored, forward or backward (ops/attention.h). bfloat16 on a GPU uses LibTorch's
// kernels. Dropout in training stores the matrix.
#include <cmath>
#include <limits>

#include "hydramix/registry.h"
#include "mixers/query_key.h"
#include "ops/attention.h"
#include "ops/dropout.h"
#include "ops/product.h"

namespace hydramix {
namespace {

// From this length on the tiled product is faster than building the matrix.
constexpr int64_t kInPieces = 256;

enum class Sees { kAll, kPast };  // the keys of a query

torch::Tensor attention(const QueryKey& qk, const Rows& rows, Sees sees = Sees::kAll) {
  auto logits =
      matrix_product(qk.q, qk.k.transpose(2, 3)) / std::sqrt(static_cast<double>(qk.q.size(3)));
  // Every row has a token, so every softmax has a finite logit.
  if (rows.valid.defined())
    logits = logits.masked_fill(~rows.valid.unsqueeze(1).unsqueeze(2),
                                -std::numeric_limits<double>::infinity());
  if (sees == Sees::kPast)
    logits = logits.masked_fill(torch::ones_like(logits[0][0], torch::kBool).triu(1),
                                -std::numeric_limits<double>::infinity());
  return logits.softmax(-1);
}

// The matrix with a share of its entries set to zero. The others are scaled so that the mean over
// seeds is the matrix.
torch::Tensor dropped_attention(const QueryKey& qk, const Rows& rows, double share, Sees sees) {
  const auto M = attention(qk, rows, sees);
  const auto keep = keep_entries(rows.dropout, M.size(1), rows.L, share);
  return M * keep.to(M.scalar_type()).mul_(1 / (1 - share));
}

torch::Tensor apply_attention(const QueryKey& qk, const torch::Tensor& x, const Rows& rows,
                              double dropout, Sees sees = Sees::kAll) {
  if (rows.dropout.sequences.defined())
    return dense_apply(dropped_attention(qk, rows, dropout, sees), x);
  // Rows have their padding after the tokens, where no token of a causal matrix sees it.
  const auto without_matrix = [&](const torch::Tensor& q, const torch::Tensor& k,
                                  const torch::Tensor& v) {
    return sees == Sees::kPast ? causal_softmax_attention(q, k, v)
                               : softmax_attention(q, k, v, rows.valid);
  };
  if (rows.given == torch::kBFloat16 && fits_fused_attention(qk.q, x)) {
    const auto rounded = [](const torch::Tensor& t) { return t.to(torch::kBFloat16); };
    return without_matrix(rounded(qk.q), rounded(qk.k), rounded(x)).to(x.scalar_type());
  }
  if (rows.L < kInPieces) return dense_apply(attention(qk, rows, sees), x);
  return without_matrix(qk.q, qk.k, x);
}

class AttentionDi : public LearnedQueryKey {
 public:
  using LearnedQueryKey::LearnedQueryKey;

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    return with_identity(attention(query_key(rows), rows));
  }
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor&,
                        const Rows& rows) const override {
    return apply_attention(query_key(rows), x, rows, options_.dropout) + x;
  }
};

class Attention : public ProjectedQueryKey {
 public:
  Attention(Heads heads, const MixerOptions& options)
      : ProjectedQueryKey(heads, options, /*silu=*/false) {}

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    return attention(query_key(params), rows);
  }
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    return apply_attention(query_key(params), x, rows, options_.dropout);
  }
};

class AttentionDd : public Attention {
 public:
  using Attention::Attention;

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    return with_identity(Attention::matrix(params, rows));
  }
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    return Attention::product(x, params, rows) + x;
  }
};

class AttentionCausal : public ProjectedQueryKey {
 public:
  AttentionCausal(Heads heads, const MixerOptions& options)
      : ProjectedQueryKey(heads, options, /*silu=*/false) {}

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    return attention(query_key(params), rows, Sees::kPast);
  }
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    return apply_attention(query_key(params), x, rows, options_.dropout, Sees::kPast);
  }
};

HYDRAMIX_REGISTER_MIXER("attention_di", AttentionDi, .matrix_class = "Dense (softmax attention)",
                        .formula = "softmax_j(q_i . k_j) + [i = j]", .cost = "O(L^2)",
                        .source = "Hydra, Hwang et al. 2024, table 2", .extendable = false,
                        .row_normalized = true, .dropout = true,
                        .choose =
                            "To reproduce table 2 of the Hydra paper: softmax attention whose "
                            "queries and keys are learned per position.");

HYDRAMIX_REGISTER_MIXER(
    "attention_dd", AttentionDd, .matrix_class = "Dense (softmax attention)",
    .formula = "softmax_j(q_i . k_j) + [i = j]", .cost = "O(L^2)",
    .source = "Hydra, Hwang et al. 2024, table 2", .sequence_aligned = true, .row_normalized = true,
    .dropout = true, .paper_aligned = true,
    .choose = "To reproduce table 2 of the Hydra paper: softmax attention with a residual.");

HYDRAMIX_REGISTER_MIXER(
    "attention", Attention, .matrix_class = "Dense (softmax attention)",
    .formula = "softmax_j(q_i . k_j)", .cost = "O(L^2)",
    .source = "Transformer, Vaswani et al. 2017", .sequence_aligned = true, .row_normalized = true,
    .dropout = true, .paper_aligned = true,
    .choose =
        "To compare with Transformers, or up to about a thousand tokens, where "
        "the quadratic cost is small.",
    .published = "style=plain expand=1 headdim=64 bias=true mixer_options.qk_dim=64");

// A later token changes no row, not even its normaliser: aligned without .row_normalized. Earlier
// tokens do change it, so a trailing block is not made from its own tokens.
HYDRAMIX_REGISTER_MIXER(
    "attention_causal", AttentionCausal, .matrix_class = "Dense (softmax attention)",
    .formula = "softmax_{j <= i}(q_i . k_j)", .cost = "O(L^2)",
    .source = "Transformer, Vaswani et al. 2017", .sequence_aligned = true,
    .trailing_aligned = false, .causal = true, .dropout = true, .paper_aligned = true,
    .choose =
        "To compare with decoders, such as in recall at equal compute; an "
        "encoder reads more with attention.",
    .published = "style=plain expand=1 headdim=64 bias=true mixer_options.qk_dim=64");

}  // namespace
}  // namespace hydramix
