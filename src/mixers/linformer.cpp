// SPDX-License-Identifier: Apache-2.0
// Linformer: softmax attention to k summaries of the sequence. Learned E and F project keys and
// values along the length,
//
//   y = softmax(Q (E^T K)^T / sqrt(d)) F^T x,      M_ij = sum_s softmax_s(q_i . k~_s / sqrt(d))
//   F_js k~_s = sum_j E_js k_j,  s = 0 .. k - 1
//
// Wang et al. 2020, "Linformer: Self-Attention with Linear Complexity", equation 7, with E and F
// shared by all heads (their headwise sharing). A sequence shorter than max_length uses the first
// rows of E and F. Cost O(L k) in time and memory, k = projected_length.
//
// Each k~_s sums over the whole sequence, so every entry of M depends on all tokens: M is not
// sequence aligned. E and F end at max_length: M is not extendable.
#include <cmath>

#include "hydramix/registry.h"
#include "mixers/query_key.h"
#include "ops/product.h"

namespace hydramix {
namespace {

class Linformer : public ProjectedQueryKey {
 public:
  Linformer(Heads heads, const MixerOptions& options)
      : ProjectedQueryKey(heads, options, /*silu=*/false) {
    // The sum of max_length keys keeps the variance of one.
    const double deviation = 1 / std::sqrt(static_cast<double>(options.max_length));
    const auto projection = [&] {
      return deviation * torch::randn({options.max_length, options.projected_length});
    };
    E = register_parameter("E", projection());
    F = register_parameter("F", projection());
  }

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    return matrix_product(summary_weights(params, rows), leading(F, rows).t());
  }

  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    const auto values = matrix_product(leading(F, rows).t(), x.permute({0, 2, 1, 3}));
    return matrix_product(summary_weights(params, rows), values).permute({0, 2, 1, 3});
  }

 private:
  torch::Tensor leading(const torch::Tensor& t, const Rows& rows) const {
    return weight(t, rows).narrow(0, 0, rows.L);  // (L, k)
  }

  // softmax_s(q_i . k~_s / sqrt(d)): (S, H, L, k). Keys at padding are zero and add nothing.
  torch::Tensor summary_weights(const torch::Tensor& params, const Rows& rows) const {
    const auto [q, k] = query_key(params);
    const auto keys = matrix_product(leading(E, rows).t(), k);  // (S, H, k, d)
    const auto logits =
        matrix_product(q, keys.transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3)));
    return logits.softmax(-1);
  }

  torch::Tensor E, F;  // (max_length, k)
};

HYDRAMIX_REGISTER_MIXER(
    "linformer", Linformer, .matrix_class = "Low-rank",
    .formula = "sum_s softmax_s(q_i . (E^T k)_s) F_js", .cost = "O(L)",
    .source = "Linformer, Wang et al. 2020", .extendable = false, .paper_aligned = true,
    .paper_difference =
        "each projected key sums over the whole sequence, so every entry "
        "depends on all tokens, and E and F end at max_length",
    .choose =
        "For softmax attention at linear cost and one fixed length, where k "
        "summaries hold enough.",
    .published = "style=plain expand=1 headdim=64 bias=true mixer_options.qk_dim=64");

}  // namespace
}  // namespace hydramix
