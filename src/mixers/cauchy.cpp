// SPDX-License-Identifier: Apache-2.0
// Cauchy mixers: entries are inverses of sums of a query and a key.
//
//   M_ij = s sum_d 1 / (exp(q_id) + exp(k_jd) + c + 1e-8) + [i = j],  s = 1 / sqrt(max_length d)
//   di:  c = 0        dd:  c = 2 bias, one learned number (0.5 initially; it may become negative)
//
// Paper: section 2.4 and table 2. Cost O(L R d): 1/(a + b) is a sum of R ~ 20 (float32) or 40
// (float64) products exp(-t a) exp(-t b), exact to rounding (docs/math.md). The matrix is built, in
// O(L^2 d), for short sequences and if a negative bias makes nodes non-positive.
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "hydramix/registry.h"
#include "mixers/query_key.h"
#include "ops/cauchy.h"

namespace hydramix {
namespace {

constexpr double kTolerance = 1e-8;
// The product of rank R is faster than the matrix from kPositionsPerRank R positions on.
constexpr int64_t kPositionsPerRank = 5;

struct Nodes {
  torch::Tensor a, b;  // (S or 1, H, L, d) each: entries are 1 / (a_id + b_jd)
};

Nodes nodes(const QueryKey& qk, const torch::Tensor& shift) {
  // Beyond this exp() overflows. The entry is then zero, but its gradient would be 0 * inf.
  const double top = qk.q.scalar_type() == torch::kFloat64 ? 700 : 80;
  return {qk.q.clamp_max(top).exp() + shift, qk.k.clamp_max(top).exp() + shift + kTolerance};
}

double cauchy_scale(const MixerOptions& o) {
  return 1 / std::sqrt(static_cast<double>(o.max_length * o.qk_dim));
}

torch::Tensor cauchy(const Nodes& n, const MixerOptions& options) {
  torch::Tensor sum;
  for (int64_t d = 0; d < n.a.size(3); ++d) {  // one d at a time, to save memory
    const auto term = (n.a.select(3, d).unsqueeze(3) + n.b.select(3, d).unsqueeze(2)).reciprocal();
    sum = sum.defined() ? sum + term : term;
  }
  return with_identity(sum * cauchy_scale(options));
}

// The tolerance is machine epsilon, so that the range of other sequences in the batch changes a
// result only by rounding.
const ReciprocalRule& reciprocal_rule(const torch::Tensor& t) {
  static const ReciprocalRule single(std::numeric_limits<float>::epsilon()),
      twice(std::numeric_limits<double>::epsilon());
  return t.scalar_type() == torch::kFloat64 ? twice : single;
}

struct Interval {
  double low, high;
};

// The ranges of a and b, ignoring NaN and the positions that `skip` (S or 1, 1, L, 1) marks. A NaN
// then affects only its own sequence.
std::array<Interval, 2> ends(const Nodes& n, const torch::Tensor& skip) {
  torch::NoGradGuard no_grad;
  constexpr double inf = std::numeric_limits<double>::infinity();
  std::vector<torch::Tensor> all;
  for (const auto& t : {n.a, n.b}) {
    const auto out = skip.defined() ? t.isnan() | skip : t.isnan();
    all.push_back(t.masked_fill(out, inf).min());
    all.push_back(t.masked_fill(out, -inf).max());
  }
  const auto values = torch::stack(all).to(torch::kFloat64).to(torch::kCPU);  // one GPU sync
  const auto v = values.accessor<double, 1>();
  return {Interval{v[0], v[1]}, Interval{v[2], v[3]}};
}

torch::Tensor apply_cauchy(Nodes n, const torch::Tensor& x, const Rows& rows,
                           const MixerOptions& options) {
  const auto dense = [&] {
    return dense_apply(with_identity(cauchy_matrix(n.a, n.b) * cauchy_scale(options)), x);
  };
  const auto& rule = reciprocal_rule(x);
  if (rows.L < kPositionsPerRank * rule.rank(1, 1)) return dense();
  torch::Tensor padding;  // (S, 1, L, 1)
  if (rows.valid.defined() && n.a.size(0) == rows.S)
    padding = ~rows.valid.unsqueeze(1).unsqueeze(3);
  const auto [a, b] = ends(n, padding);
  const double low = a.low + b.low, high = a.high + b.high;
  const bool positive = a.low >= 0 && b.low >= 0 && low > 0 && std::isfinite(high);
  if (!positive || rows.L < kPositionsPerRank * rule.rank(low, high)) return dense();
  if (padding.defined()) {
    // Nodes of padding may be outside the interval, even negative. Their exponentials could
    // overflow to infinity, and infinity times x = 0 is NaN.
    n.a = n.a.masked_fill(padding, a.low);
    n.b = n.b.masked_fill(padding, b.low);
  }
  return cauchy_product(n.a, n.b, x, rule.on(low, high)) * cauchy_scale(options) + x;
}

class CauchyDi : public LearnedQueryKey {
 public:
  using LearnedQueryKey::LearnedQueryKey;

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    return cauchy(own_nodes(rows), options_);
  }
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor&,
                        const Rows& rows) const override {
    return apply_cauchy(own_nodes(rows), x, rows, options_);
  }

 private:
  Nodes own_nodes(const Rows& rows) const {
    return nodes(query_key(rows), torch::zeros({}, rows.options));
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
    return cauchy(nodes(query_key(params), weight(bias, rows)), options_);
  }
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    return apply_cauchy(nodes(query_key(params), weight(bias, rows)), x, rows, options_);
  }

 private:
  torch::Tensor bias;  // ()
};

HYDRAMIX_REGISTER_MIXER(
    "cauchy_di", CauchyDi, .matrix_class = "Cauchy", .formula = "sum_d 1 / (exp(q_id) + exp(k_jd))",
    .cost = "O(L)", .source = "Hydra, Hwang et al. 2024", .extendable = false, .capturable = false,
    .choose = "To reproduce table 2 of the Hydra paper: a Cauchy matrix learned per position.");

HYDRAMIX_REGISTER_MIXER("cauchy_dd", CauchyDd, .matrix_class = "Cauchy",
                        .formula = "sum_d 1 / (exp(q_id) + exp(k_jd) + c)", .cost = "O(L)",
                        .source = "Hydra, Hwang et al. 2024", .sequence_aligned = true,
                        .capturable = false, .paper_aligned = true,
                        .choose =
                            "To reproduce table 2 of the Hydra paper: relevance as an inverse sum; "
                            "close to low_rank_dd in quality.");

}  // namespace
}  // namespace hydramix
