// SPDX-License-Identifier: Apache-2.0
// Cauchy mixers: entries are inverses of sums of a query and a key.
//
//   M_ij = s sum_d 1 / (exp(q_id) + exp(k_jd) + c + 1e-8) + [i = j],  s = 1 / sqrt(max_length d)
//   di:  c = 0        dd:  c = 2 bias, one learned number (0.5 at first; nothing keeps it positive)
//
// Paper: section 2.4 and table 2. Cost O(L^2 d): the matrix is built and applied.
#include <cmath>

#include "hydramix/registry.h"
#include "mixers/query_key.h"

namespace hydramix {
namespace {

constexpr double kTolerance = 1e-8;

torch::Tensor cauchy(const QueryKey& qk, const torch::Tensor& shift, int64_t max_length) {
  // Beyond this exp() overflows and its gradient would be 0 * inf, for an entry that is zero.
  const double top = qk.q.scalar_type() == torch::kFloat64 ? 700 : 80;
  const auto q = qk.q.clamp_max(top).exp() + shift,
             k = qk.k.clamp_max(top).exp() + shift;  // (S or 1, H, L, d)
  torch::Tensor sum;
  for (int64_t d = 0; d < q.size(3);
       ++d) {  // one d at a time keeps memory at the size of the matrix
    const auto term =
        (q.select(3, d).unsqueeze(3) + k.select(3, d).unsqueeze(2) + kTolerance).reciprocal();
    sum = sum.defined() ? sum + term : term;
  }
  return with_identity(sum / std::sqrt(static_cast<double>(max_length * q.size(3))));
}

class CauchyDi : public LearnedQueryKey {
 public:
  using LearnedQueryKey::LearnedQueryKey;

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    return cauchy(query_key(rows), torch::zeros({}, rows.options), options_.max_length);
  }
};

class CauchyDd : public ProjectedQueryKey {
 public:
  CauchyDd(Heads heads, const MixerOptions& options)
      : ProjectedQueryKey(heads, options, /*silu=*/false) {
    bias = register_parameter("bias", torch::full({}, 0.5));
  }

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    return cauchy(query_key(params), weight(bias, rows), options_.max_length);
  }

 private:
  torch::Tensor bias;  // ()
};

HYDRAMIX_REGISTER_MIXER("cauchy_di", CauchyDi, .matrix_class = "Cauchy",
                        .formula = "sum_d 1 / (exp(q_id) + exp(k_jd))", .cost = "O(L^2)",
                        .source = "Hydra, Hwang et al. 2024", .extendable = false);

HYDRAMIX_REGISTER_MIXER("cauchy_dd", CauchyDd, .matrix_class = "Cauchy",
                        .formula = "sum_d 1 / (exp(q_id) + exp(k_jd) + c)", .cost = "O(L^2)",
                        .source = "Hydra, Hwang et al. 2024", .sequence_aligned = true);

}  // namespace
}  // namespace hydramix
