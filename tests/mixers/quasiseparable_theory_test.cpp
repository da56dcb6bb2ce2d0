// SPDX-License-Identifier: Apache-2.0
// The paper's propositions on quasiseparable matrices, in float64: rank characterisations
// (definitions 3.1 and 3.2), what these matrices contain (corollaries 3.3 to 3.5), and the
// decomposition into two scans (proposition 3.7).
#include <algorithm>
#include <cmath>

#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;
using test::random_case;

int64_t numerical_rank(const torch::Tensor& block) {
  const auto s = torch::linalg_svdvals(block);
  return (s > 1e-11 * s.max()).sum().item<int64_t>();
}

torch::Tensor block(const torch::Tensor& M, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  return M.narrow(0, row, rows).narrow(1, col, cols);
}

// ---- ranks ----

// Every submatrix of a triangle lies in one of its maximal blocks, so those decide.
struct Ranks {
  int64_t largest = 0, of_the_middle = 0;
};

// Blocks of rows i.. and columns ..i - 1 + overlap: strictly below the diagonal for overlap 0, on
// or below it for overlap 1.
Ranks lower_ranks(const torch::Tensor& M, int64_t overlap) {
  const int64_t L = M.size(0);
  Ranks ranks;
  for (int64_t i = 1; i < L; ++i)
    ranks.largest = std::max(ranks.largest, numerical_rank(block(M, i, L - i, 0, i + overlap)));
  ranks.of_the_middle = numerical_rank(block(M, L / 2, L - L / 2, 0, L / 2 + overlap));
  return ranks;
}

TEST(Theory, SemiseparableBlocksOnAndBelowTheDiagonalHaveRankN) {
  const auto c = random_case("semiseparable", {.B = 1, .L = 24}, torch::kFloat64, 1);
  auto M = c.mixer->materialize(c.params, 24)[0].detach();
  const auto D = c.mixer->named_parameters()["D"].detach();
  for (int64_t h = 0; h < 4; ++h) {
    const auto ranks = lower_ranks(M[h] - D[h] * torch::eye(24, torch::kFloat64), /*overlap=*/1);
    EXPECT_EQ(ranks.largest, 5);
    EXPECT_EQ(ranks.of_the_middle, 5);
    EXPECT_EQ(M[h].triu(1).count_nonzero().item<int64_t>(), 0);
  }
}

TEST(Theory, QuasiseparableBlocksOffTheDiagonalHaveRankNAndTheDiagonalIsFree) {
  const auto c = random_case("hydra", {.B = 1, .L = 24}, torch::kFloat64, 2);
  const auto M = c.mixer->materialize(c.params, 24)[0].detach();
  for (int64_t h = 0; h < 4; ++h) {
    for (const auto& triangle : {M[h], M[h].t()}) {
      const auto ranks = lower_ranks(triangle, /*overlap=*/0);
      EXPECT_EQ(ranks.largest, 5);
      EXPECT_EQ(ranks.of_the_middle, 5);
      // With the diagonal the bound fails, which is the point of "quasi".
      EXPECT_GT(lower_ranks(triangle, /*overlap=*/1).largest, 5);
    }
  }
}

TEST(Theory, LowRankMixersHaveRankD) {
  for (const std::string name :
       {"low_rank_dd", "low_rank_di", "linear_attention_unnormalized", "linear_attention"}) {
    const auto c = random_case(name, {.B = 1, .L = 24}, torch::kFloat64, 3);
    auto M = c.mixer->materialize(c.params, 24)[0].detach();
    if (name.starts_with("low_rank"))
      M = M - torch::eye(24, torch::kFloat64);  // the inner residual
    for (int64_t h = 0; h < 4; ++h) EXPECT_EQ(numerical_rank(M[h]), 3) << name;
  }
}

// ---- Hydra built by hand ----

// A Hydra with one group per head, with decays and steps chosen by the test.
struct HandMadeHydra {
  HandMadeHydra(int64_t H, int64_t N, int64_t L)
      : mixer(make_mixer("hydra", {H, 2}, {.d_state = N, .groups = H})) {
    mixer->to(torch::kFloat64);
    const auto options = torch::TensorOptions(torch::kFloat64);
    b_f = torch::zeros({L, H, N}, options), c_f = b_f.clone(), b_b = b_f.clone(), c_b = b_f.clone();
    dt_f = torch::ones({L, H}, options), dt_b = dt_f.clone(), delta = torch::zeros({L, H}, options);
  }

  // A = 0 makes every decay one.
  torch::Tensor matrix(const torch::Tensor& A_log) const {
    torch::NoGradGuard no_grad;
    auto weights = mixer->named_parameters();
    weights["A_log"].copy_(A_log);
    weights["dt_bias"].zero_();
    const auto raw = [](const torch::Tensor& dt) { return dt + torch::log(-torch::expm1(-dt)); };
    const auto params = torch::cat({b_f.flatten(1), c_f.flatten(1), b_b.flatten(1), c_b.flatten(1),
                                    raw(dt_f), raw(dt_b), delta},
                                   1);
    return mixer->materialize(params.unsqueeze(0), params.size(0))[0];
  }

  std::shared_ptr<Mixer> mixer;
  torch::Tensor b_f, c_f, b_b, c_b;  // (L, H, N)
  torch::Tensor dt_f, dt_b, delta;   // (L, H)
};

// t shifted by one place, filled with zero: result[i] = t[i + step].
torch::Tensor moved(const torch::Tensor& t, int64_t step) {
  auto result = torch::zeros_like(t);
  const int64_t L = t.size(0);
  if (step > 0)
    result.narrow(0, 0, L - 1).copy_(t.narrow(0, 1, L - 1));
  else
    result.narrow(0, 1, L - 1).copy_(t.narrow(0, 0, L - 1));
  return result;
}

TEST(Theory, QuasiseparableGeneralizesLowRank) {
  const int64_t H = 2, N = 3, L = 12;
  torch::manual_seed(4);
  const auto q = torch::randn({L, H, N}, torch::kFloat64),
             k = torch::randn({L, H, N}, torch::kFloat64);
  HandMadeHydra hydra(H, N, L);
  hydra.b_f = k;
  hydra.b_b = k;
  hydra.c_f = moved(q, 1);   // the scan is read one place late,
  hydra.c_b = moved(q, -1);  // from either side
  hydra.delta = (q * k).sum(2);
  const auto no_decay = torch::full({H}, -1000.0, torch::kFloat64);
  expect_close(hydra.matrix(no_decay), torch::einsum("ihn,jhn->hij", {q, k}), 1e-12,
               "low rank as hydra");
}

// The columns of a mixer with Hydra's projection: b, c (L, H, N) and dt (L, H) of both directions.
struct Directions {
  torch::Tensor b_f, c_f, b_b, c_b, dt_f, dt_b, A;
};

Directions directions_of(const test::MixerCase& c, int64_t N) {
  const int64_t H = c.mixer->heads().H;
  const auto p = c.params[0];
  const auto weights = c.mixer->named_parameters();
  const auto vectors = [&](int64_t part) {
    return p.narrow(1, part * H * N, H * N).view({-1, H, N});
  };
  const auto steps = [&](int64_t part) {
    return torch::softplus(p.narrow(1, 4 * H * N + part * H, H) + weights["dt_bias"].detach());
  };
  return {vectors(0),
          vectors(1),
          vectors(2),
          vectors(3),
          steps(0),
          steps(1),
          -weights["A_log"].detach().exp()};
}

TEST(Theory, QuasiseparableGeneralizesSemiseparable) {
  const int64_t H = 2, N = 3, L = 12;
  const auto c = random_case(
      "semiseparable", {.B = 1, .L = L, .heads = {H, 2}, .options = {.d_state = N, .groups = H}},
      torch::kFloat64, 5);
  const auto p = c.params[0];
  const auto weights = c.mixer->named_parameters();
  const auto b = p.narrow(1, 0, H * N).view({L, H, N}),
             cc = p.narrow(1, H * N, H * N).view({L, H, N});
  const auto dt = torch::softplus(p.narrow(1, 2 * H * N, H) + weights["dt_bias"].detach());
  const auto A = -weights["A_log"].detach().exp();
  HandMadeHydra hydra(H, N, L);
  hydra.b_f = b;
  hydra.c_f = moved(cc * (dt * A).exp().unsqueeze(2), 1);  // the last decay moves into c
  hydra.dt_f = dt;
  hydra.delta = (cc * b).sum(2) * dt + weights["D"].detach();
  expect_close(hydra.matrix(weights["A_log"].detach()),
               c.mixer->materialize(c.params, L)[0].detach(), 1e-12, "semiseparable as hydra");
}

TEST(Theory, QuasiseparableGeneralizesAdd) {
  const int64_t H = 2, N = 3, L = 12;
  const auto c =
      random_case("add", {.B = 1, .L = L, .heads = {H, 2}, .options = {.d_state = N, .groups = H}},
                  torch::kFloat64, 6);
  const auto d = directions_of(c, N);
  const auto weights = c.mixer->named_parameters();
  HandMadeHydra hydra(H, N, L);
  hydra.b_f = d.b_f, hydra.b_b = d.b_b, hydra.dt_f = d.dt_f, hydra.dt_b = d.dt_b;
  hydra.c_f = moved(d.c_f * (d.dt_f * d.A).exp().unsqueeze(2), 1);
  hydra.c_b = moved(d.c_b * (d.dt_b * d.A).exp().unsqueeze(2), -1);
  hydra.delta =
      (d.c_f * d.b_f).sum(2) * d.dt_f + (d.c_b * d.b_b).sum(2) * d.dt_b + weights["D"].detach();
  expect_close(hydra.matrix(weights["A_log"].detach()),
               c.mixer->materialize(c.params, L)[0].detach(), 1e-12, "add as hydra");
}

// With N = 1, add's diagonal between the ends is determined by its triangles:
// m_ii - D = m_{i,i-1} m_{i+1,i} / m_{i+1,i-1} + m_{i-1,i} m_{i,i+1} / m_{i-1,i+1}.
torch::Tensor diagonal_that_add_must_have(const torch::Tensor& M) {
  const int64_t L = M.size(0);
  auto diagonal = torch::zeros({L - 2}, torch::kFloat64);
  const auto m = M.accessor<double, 2>();
  for (int64_t i = 1; i + 1 < L; ++i)
    diagonal[i - 1] =
        m[i][i - 1] * m[i + 1][i] / m[i + 1][i - 1] + m[i - 1][i] * m[i][i + 1] / m[i - 1][i + 1];
  return diagonal;
}

TEST(Theory, QuasiseparableIsStrictlyLargerThanAdd) {
  const int64_t L = 7;
  // The law of add, for a random one.
  const auto c = random_case("add", {.B = 1, .L = L, .heads = {1, 2}, .options = {.d_state = 1}},
                             torch::kFloat64, 7);
  const auto add = c.mixer->materialize(c.params, L)[0][0].detach().contiguous();
  const auto D = c.mixer->named_parameters()["D"].detach();
  expect_close(add.diagonal().narrow(0, 1, L - 2) - D, diagonal_that_add_must_have(add), 1e-10,
               "add's diagonal");

  // The counterexample: ones off the diagonal, 0, 1, 2, ... on it. It is a Hydra of N = 1 ...
  HandMadeHydra hydra(1, 1, L);
  hydra.b_f.fill_(1), hydra.b_b.fill_(1), hydra.c_f.fill_(1), hydra.c_b.fill_(1);
  hydra.delta = torch::arange(L, torch::kFloat64).unsqueeze(1);
  const auto M = hydra.matrix(torch::full({1}, -1000.0, torch::kFloat64))[0].contiguous();
  expect_close(M,
               torch::ones({L, L}, torch::kFloat64) - torch::eye(L, torch::kFloat64) +
                   torch::diag(torch::arange(L, torch::kFloat64)),
               1e-14, "the counterexample");
  // ... but add would need the same diagonal, 2 + D, at every inner place.
  const auto free_part = M.diagonal().narrow(0, 1, L - 2) - diagonal_that_add_must_have(M);
  EXPECT_GT((free_part.max() - free_part.min()).item<double>(), 3.0)
      << "some D would make it an add matrix";
}

TEST(Theory, HydraIsTheEntryWiseDefinition) {
  const int64_t H = 2, N = 3, L = 11;
  const auto c = random_case(
      "hydra", {.B = 1, .L = L, .heads = {H, 2}, .options = {.d_state = N, .groups = H}},
      torch::kFloat64, 8);
  const auto d = directions_of(c, N);
  const auto delta = c.params[0].narrow(1, 4 * H * N + 2 * H, H);
  auto M = torch::zeros({H, L, L}, torch::kFloat64);
  const auto dot = [&](const torch::Tensor& c_, int64_t i, const torch::Tensor& b_, int64_t j,
                       int64_t h) { return (c_[i][h] * b_[j][h]).sum().item<double>(); };
  for (int64_t h = 0; h < H; ++h) {
    const double A = d.A[h].item<double>();
    for (int64_t i = 0; i < L; ++i)
      for (int64_t j = 0; j < L; ++j) {
        double m, sum = 0;
        if (i > j) {
          for (int64_t t = j + 1; t <= i - 1; ++t) sum += d.dt_f[t][h].item<double>();
          m = dot(d.c_f, i - 1, d.b_f, j, h) * std::exp(A * sum) * d.dt_f[j][h].item<double>();
        } else if (i < j) {
          for (int64_t t = i + 1; t <= j - 1; ++t) sum += d.dt_b[t][h].item<double>();
          m = dot(d.c_b, i + 1, d.b_b, j, h) * std::exp(A * sum) * d.dt_b[j][h].item<double>();
        } else {
          m = delta[i][h].item<double>();
        }
        M[h][i][j] = m;
      }
  }
  expect_close(c.mixer->materialize(c.params, L)[0].detach(), M, 1e-12, "hydra, matrix");
  expect_close(c.mixer->mix(c.x, c.params).detach(), dense_apply(M.unsqueeze(0), c.x), 1e-12,
               "hydra, product");
}

TEST(Theory, HydraFlipsWithItsInputWhenTheDirectionsAreSwapped) {
  const int64_t GN = 2 * 5, H = 4;
  const auto c = random_case("hydra", {.L = 33}, torch::kFloat64, 9);
  const auto part = [&](int64_t begin, int64_t width) { return c.params.narrow(2, begin, width); };
  const auto swapped = torch::cat({part(2 * GN, 2 * GN), part(0, 2 * GN), part(4 * GN + H, H),
                                   part(4 * GN, H), part(4 * GN + 2 * H, H)},
                                  2)
                           .flip({1});
  expect_close(c.mixer->mix(c.x.flip({1}), swapped), c.mixer->mix(c.x, c.params).flip({1}), 1e-13,
               "hydra flipped");
}

}  // namespace
}  // namespace hydramix
