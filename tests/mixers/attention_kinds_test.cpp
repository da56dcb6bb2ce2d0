// SPDX-License-Identifier: Apache-2.0
// Causal attention, Linformer and linear attention against their definitions, entry by entry.
#include <cmath>

#include "hydramix/error.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::CaseSizes;
using test::expect_close;
using test::random_case;

constexpr int64_t kWidth = 3;  // d

CaseSizes one_row(int64_t L, MixerOptions options = {}) {
  options.qk_dim = kWidth;
  return {.B = 1, .L = L, .heads = {2, 3}, .options = options};
}

using Entries = std::vector<std::vector<double>>;  // of a matrix

// q (part 0) or k (part 1) of head h: (L, d).
Entries columns_of_head(const test::MixerCase& c, int64_t part, int64_t h) {
  const auto p = c.params[0].contiguous();
  const auto at = p.accessor<double, 2>();
  Entries result;
  for (int64_t i = 0; i < p.size(0); ++i) {
    result.emplace_back();
    for (int64_t d = 0; d < kWidth; ++d)
      result.back().push_back(at[i][(part * c.mixer->heads().H + h) * kWidth + d]);
  }
  return result;
}

Entries entries(const torch::Tensor& t) {
  const auto m = t.detach().contiguous();
  const auto at = m.accessor<double, 2>();
  Entries result;
  for (int64_t i = 0; i < m.size(0); ++i) {
    result.emplace_back();
    for (int64_t j = 0; j < m.size(1); ++j) result.back().push_back(at[i][j]);
  }
  return result;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}

void expect_matrix(const test::MixerCase& c, const std::function<Entries(int64_t)>& definition,
                   const std::string& what) {
  const int64_t L = c.x.size(1), H = c.mixer->heads().H;
  auto M = torch::zeros({1, H, L, L}, torch::kFloat64);
  for (int64_t h = 0; h < H; ++h) {
    const auto rows = definition(h);
    for (int64_t i = 0; i < L; ++i)
      for (int64_t j = 0; j < L; ++j) M[0][h][i][j] = rows[i][j];
  }
  expect_close(c.mixer->materialize(c.params, L).detach(), M, 1e-13, what + ", matrix");
  expect_close(c.mixer->mix(c.x, c.params).detach(), dense_apply(M, c.x), 1e-13,
               what + ", product");
}

TEST(AttentionCausal, IsTheSoftmaxOverThePastTokens) {
  for (const int64_t L : {1, 2, 13}) {
    const auto c = random_case("attention_causal", one_row(L), torch::kFloat64, 1);
    const auto definition = [&](int64_t h) {
      const auto q = columns_of_head(c, 0, h), k = columns_of_head(c, 1, h);
      Entries M(L, std::vector<double>(L, 0.0));
      for (int64_t i = 0; i < L; ++i) {
        double sum = 0;
        for (int64_t j = 0; j <= i; ++j) sum += M[i][j] = std::exp(dot(q[i], k[j]) / std::sqrt(3.));
        for (int64_t j = 0; j <= i; ++j) M[i][j] /= sum;
      }
      return M;
    };
    expect_matrix(c, definition, concat("L = ", L));
  }
}

TEST(AttentionCausal, TheLastRowIsThatOfAttentionOverAllTokens) {
  const int64_t L = 300;  // without a matrix
  const auto causal = random_case("attention_causal", one_row(L), torch::kFloat64, 2);
  const auto all = make_mixer("attention", {2, 3}, {.qk_dim = kWidth});
  const auto y = causal.mixer->mix(causal.x, causal.params);
  for (const int64_t n : {1, 2, 255, 256, 257, 300}) {
    const auto prefix = all->mix(causal.x.narrow(1, 0, n), causal.params.narrow(1, 0, n));
    expect_close(y.select(1, n - 1), prefix.select(1, n - 1), 1e-13, concat("prefix of ", n));
  }
}

// phi(u) = elu(u) + 1, for every entry.
Entries features(Entries rows) {
  for (auto& row : rows)
    for (double& u : row) u = u > 0 ? u + 1 : std::exp(u);
  return rows;
}

// phi(q_i) . phi(k_j) of head h, divided by the sum of the row and 1e-6 if `normalised`.
Entries linear_attention(const test::MixerCase& c, int64_t h, bool normalised) {
  const auto q = features(columns_of_head(c, 0, h)), k = features(columns_of_head(c, 1, h));
  Entries M;
  for (const auto& query : q) {
    M.emplace_back();
    double sum = 1e-6;
    for (const auto& key : k) sum += M.back().emplace_back(dot(query, key));
    if (normalised)
      for (double& m : M.back()) m /= sum;
  }
  return M;
}

// At this tolerance the 1e-6 counts: it changes entries by about 1e-8.
TEST(LinearAttention, IsTheProductOfFeaturesWithAndWithoutItsNormaliser) {
  for (const int64_t L : {1, 2, 13}) {
    for (const bool normalised : {true, false}) {
      const std::string name = normalised ? "linear_attention" : "linear_attention_unnormalized";
      const auto c = random_case(name, one_row(L), torch::kFloat64, 7);
      expect_matrix(
          c, [&](int64_t h) { return linear_attention(c, h, normalised); },
          concat(name, ", L = ", L));
    }
  }
}

MixerOptions projecting(int64_t max_length, int64_t k) {
  MixerOptions options;
  options.max_length = max_length;
  options.projected_length = k;
  return options;
}

TEST(Linformer, IsTheSoftmaxOverSummariesOfTheKeys) {
  const int64_t k = 5;
  for (const int64_t L : {1, 7, 12}) {
    const auto c = random_case("linformer", one_row(L, projecting(12, k)), torch::kFloat64, 3);
    const auto E = entries(c.mixer->named_parameters()["E"]),
               F = entries(c.mixer->named_parameters()["F"]);
    ASSERT_EQ(E.size(), 12u);
    ASSERT_EQ(E[0].size(), 5u);
    const auto definition = [&](int64_t h) {
      const auto q = columns_of_head(c, 0, h), keys = columns_of_head(c, 1, h);
      Entries summary(k, std::vector<double>(kWidth, 0.0));
      for (int64_t s = 0; s < k; ++s)
        for (int64_t j = 0; j < L; ++j)
          for (int64_t d = 0; d < kWidth; ++d) summary[s][d] += E[j][s] * keys[j][d];
      Entries M(L, std::vector<double>(L, 0.0));
      for (int64_t i = 0; i < L; ++i) {
        double sum = 0;
        for (int64_t s = 0; s < k; ++s) sum += std::exp(dot(q[i], summary[s]) / std::sqrt(3.));
        for (int64_t j = 0; j < L; ++j)
          for (int64_t s = 0; s < k; ++s)
            M[i][j] += std::exp(dot(q[i], summary[s]) / std::sqrt(3.)) / sum * F[j][s];
      }
      return M;
    };
    expect_matrix(c, definition, concat("L = ", L));
  }
}

TEST(Linformer, WithIdentityProjectionsIsAttention) {
  const int64_t L = 11;
  const auto c = random_case("linformer", one_row(L, projecting(L, L)), torch::kFloat64, 4);
  {
    torch::NoGradGuard no_grad;
    for (auto& p : c.mixer->parameters()) p.copy_(torch::eye(L, torch::kFloat64));
  }
  const auto attention = make_mixer("attention", {2, 3}, {.qk_dim = kWidth});
  expect_close(c.mixer->mix(c.x, c.params).detach(), attention->mix(c.x, c.params).detach(), 1e-13,
               "linformer");
}

TEST(Linformer, HasTheRankOfItsProjection) {
  const int64_t L = 20, k = 4;
  const auto c = random_case("linformer", one_row(L, projecting(32, k)), torch::kFloat64, 5);
  const auto s = torch::linalg_svdvals(c.mixer->materialize(c.params, L)[0][1].detach());
  EXPECT_GT((s[k - 1] / s[0]).item<double>(), 1e-6);
  EXPECT_LT((s[k] / s[0]).item<double>(), 1e-13);
}

// The reason why it is not sequence aligned: the first row reads the last key.
TEST(Linformer, EveryEntryDependsOnTheLastToken) {
  const int64_t L = 9;
  const auto c = random_case("linformer", one_row(L, projecting(16, 4)), torch::kFloat64, 6);
  auto other = c.params.clone();
  other.select(1, L - 1).add_(1.0);
  const auto change = c.mixer->materialize(other, L) - c.mixer->materialize(c.params, L);
  EXPECT_GT(change.abs().min().item<double>(), 1e-9);
}

}  // namespace
}  // namespace hydramix
