// SPDX-License-Identifier: Apache-2.0
// Butterfly and Monarch matrices: their definitions, the matrices they can represent, and lengths
// at which their fast products have several stages.
#include <bit>

#include "hydramix/error.h"
#include "support/expect.h"
#include "support/tensors.h"

#include "ops/toeplitz.h"

namespace hydramix {
namespace {

using test::CaseSizes;
using test::expect_close;
using test::random_case;

const std::vector<std::string> kNames = {"butterfly", "kaleidoscope", "monarch", "monarch_conv"};

CaseSizes sizes(int64_t L, int64_t max_length, Heads heads = {2, 3}, int64_t B = 1) {
  return {.B = B, .L = L, .heads = heads, .options = {.max_length = max_length}};
}

torch::Tensor weight(const test::MixerCase& c, const std::string& name) {
  return c.mixer->named_parameters()[name].detach();  // shares its memory
}

// (H, L, L)
torch::Tensor matrix(const test::MixerCase& c) {
  return c.mixer->materialize(c.params, c.x.size(1))[0].detach();
}

// F_k as an n x n matrix, from the blocks of one head, w (K, n / 2, 2, 2).
torch::Tensor factor(const torch::Tensor& w, int64_t k) {
  const int64_t n = 2 * w.size(1), stride = int64_t{1} << k;
  auto F = torch::zeros({n, n}, torch::kFloat64);
  for (int64_t pair = 0; pair < n / 2; ++pair) {
    const int64_t i = pair / stride * 2 * stride + pair % stride;
    for (int64_t out = 0; out < 2; ++out)
      for (int64_t in = 0; in < 2; ++in) F[i + out * stride][i + in * stride] = w[k][pair][out][in];
  }
  return F;
}

torch::Tensor product_of_factors(const torch::Tensor& w) {
  auto B = torch::eye(2 * w.size(1), torch::kFloat64);
  for (int64_t k = 0; k < w.size(0); ++k) B = torch::matmul(factor(w, k), B);
  return B;
}

// Blocks [1 1; 1 -1] in every factor.
torch::Tensor hadamard_blocks(const torch::Tensor& like) {
  return torch::tensor({{1., 1.}, {1., -1.}}, torch::kFloat64).expand_as(like);
}

// ---- butterflies ----

TEST(Butterfly, IsTheProductOfItsFactors) {
  for (const int64_t n : {2, 4, 32}) {
    const auto c = random_case("butterfly", sizes(n, n), torch::kFloat64, 1);
    for (int64_t h = 0; h < 2; ++h)
      expect_close(matrix(c)[h], product_of_factors(weight(c, "factors")[h]), 1e-14, "butterfly");
  }
}

TEST(Butterfly, WithHadamardBlocksIsTheHadamardMatrix) {
  for (const int64_t L : {16, 11}) {
    const auto c = random_case("butterfly", sizes(L, 16), torch::kFloat64, 2);
    weight(c, "factors").copy_(hadamard_blocks(weight(c, "factors")));
    auto hadamard = torch::empty({L, L}, torch::kFloat64);
    for (int64_t i = 0; i < L; ++i)
      for (int64_t j = 0; j < L; ++j)
        hadamard[i][j] = std::popcount(static_cast<uint64_t>(i & j)) % 2 == 0 ? 1.0 : -1.0;
    EXPECT_TRUE(torch::equal(matrix(c)[0], hadamard)) << L;
    expect_close(c.mixer->mix(c.x, c.params).detach(),
                 dense_apply(hadamard.expand({1, 2, L, L}), c.x), 1e-14, "Hadamard");
  }
}

TEST(Butterfly, KaleidoscopeIsAButterflyTimesATransposedOne) {
  const int64_t n = 32;
  const auto c = random_case("kaleidoscope", sizes(n, n), torch::kFloat64, 3);
  for (int64_t h = 0; h < 2; ++h)
    expect_close(matrix(c)[h],
                 torch::matmul(product_of_factors(weight(c, "left")[h]),
                               product_of_factors(weight(c, "right")[h]).t()),
                 1e-14, "kaleidoscope");
}

MixerOptions kaleidoscope_options(int64_t max_length, int64_t width, int64_t expansion) {
  MixerOptions options;
  options.max_length = max_length;
  options.kaleidoscope_width = width;
  options.kaleidoscope_expansion = expansion;
  return options;
}

// (BB*)^w_e: the leading block of a product of w factors of size e n.
TEST(Butterfly, KaleidoscopeOfWidthAndExpansionIsTheLeadingBlockOfItsFactors) {
  for (const auto& [width, expansion] : {std::pair{2, 1}, {1, 4}, {3, 2}}) {
    const auto c = random_case(
        "kaleidoscope",
        {.B = 2, .L = 7, .heads = {2, 3}, .options = kaleidoscope_options(8, width, expansion)},
        torch::kFloat64, 16);
    const auto what = concat("width ", width, ", expansion ", expansion);
    auto M = torch::empty({1, 2, 7, 7}, torch::kFloat64);
    for (int64_t h = 0; h < 2; ++h) {
      auto whole = torch::eye(8 * expansion, torch::kFloat64);
      for (int64_t p = 1; p <= width; ++p) {
        const std::string end = p == 1 ? "" : concat("_", p);
        const auto pair = torch::matmul(product_of_factors(weight(c, "left" + end)[h]),
                                        product_of_factors(weight(c, "right" + end)[h]).t());
        whole = torch::matmul(whole, pair);
      }
      M[0][h] = whole.narrow(0, 0, 7).narrow(1, 0, 7);
    }
    expect_close(matrix(c), M[0], 1e-13, what);
    expect_close(c.mixer->mix(c.x, c.params).detach(), dense_apply(M, c.x), 1e-13, what);
  }
}

TEST(Butterfly, KaleidoscopeOfWidthOneKeepsItsNamesAndWeights) {
  torch::manual_seed(17);
  const auto mixer = make_mixer("kaleidoscope", {2, 3}, {.max_length = 8});
  ASSERT_EQ(mixer->named_parameters().keys(), (std::vector<std::string>{"left", "right"}));
  torch::manual_seed(17);
  for (const auto& p : mixer->parameters()) {
    const auto angle = std::sqrt(1.0 / 6) * torch::randn({2, 3, 4});
    EXPECT_TRUE(torch::equal(p.select(4, 0).select(3, 1), angle.sin()));
  }
}

TEST(Butterfly, KaleidoscopeStartsOrthogonalAtEveryWidthAndExpansion) {
  torch::manual_seed(18);
  const auto mixer = make_mixer("kaleidoscope", {1, 2}, kaleidoscope_options(64, 3, 1));
  const auto M = mixer->materialize(torch::zeros({1, 64, 0}), 64)[0].detach();
  expect_close(torch::matmul(M, M.transpose(1, 2)), torch::eye(64).expand({1, 64, 64}), 1e-5, "w");
  EXPECT_GT(M.diagonal(0, 1, 2).square().mean().item<double>(), 0.25);
  EXPECT_THROW_WITH(make_mixer("kaleidoscope", {1, 2}, kaleidoscope_options(64, 1, 3)), UsageError,
                    "kaleidoscope_expansion = 3 is not a power of two");
}

// Walsh transforms on both sides of a diagonal: M_ij = t_{i xor j}, which is not a butterfly.
TEST(Butterfly, KaleidoscopeHoldsConvolutionsOverXor) {
  const int64_t n = 16;
  const auto c = random_case("kaleidoscope", sizes(n, n, {1, 2}), torch::kFloat64, 4);
  auto left = weight(c, "left"), right = weight(c, "right");
  left.copy_(hadamard_blocks(left));
  right.copy_(hadamard_blocks(right));
  const auto spectrum = torch::randn({n}, torch::kFloat64);
  // The diagonal is multiplied into the columns of left's F_0, the next factor.
  left[0][0].copy_(left[0][0] * spectrum.view({n / 2, 1, 2}));
  const auto M = matrix(c)[0].contiguous();
  const auto m = M.accessor<double, 2>();
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) EXPECT_NEAR(m[i][j], m[0][i ^ j], 1e-13);
  expect_close(M[0], torch::matmul(product_of_factors(right[0]), spectrum), 1e-14, "the kernel");
}

TEST(Butterfly, StartsOrthogonalAndNearTheIdentityAtEveryLength) {
  for (const std::string name : {"butterfly", "kaleidoscope"})
    for (const int64_t n : {16, 512}) {
      torch::manual_seed(5);
      const auto mixer = make_mixer(name, {2, 2}, {.max_length = n});
      const auto M = mixer->materialize(torch::zeros({1, n, 0}), n)[0].detach();
      expect_close(torch::matmul(M, M.transpose(1, 2)), torch::eye(n).expand({2, n, n}), 1e-5,
                   name);
      const double energy = M.diagonal(0, 1, 2).square().mean().item<double>();
      EXPECT_GT(energy, 0.25) << name << " " << n;  // 1/e in expectation
      EXPECT_LT(energy, 0.55) << name << " " << n;
    }
}

// ---- Monarch ----

TEST(Monarch, IsTwoBlockDiagonalFactorsAndATransposition) {
  const int64_t max_length = 20, a = 4, b = 5;
  const auto c = random_case("monarch", sizes(max_length, max_length), torch::kFloat64, 6);
  const auto left = weight(c, "left"), right = weight(c, "right");
  ASSERT_EQ(left.sizes(), (std::vector<int64_t>{2, b, a, a}));
  ASSERT_EQ(right.sizes(), (std::vector<int64_t>{2, a, b, b}));
  // P takes place i_1 b + i_2 to i_2 a + i_1.
  auto P = torch::zeros({a * b, a * b}, torch::kFloat64);
  for (int64_t i = 0; i < a * b; ++i) P[i % b * a + i / b][i] = 1;
  for (int64_t h = 0; h < 2; ++h) {
    const auto L = torch::block_diag(left[h].unbind()), R = torch::block_diag(right[h].unbind());
    expect_close(matrix(c)[h], torch::matmul(torch::matmul(P.t(), L), torch::matmul(P, R)), 1e-14,
                 "monarch");
  }
}

// M_ij = [i_1 = j_1] R[j_1][i_2, j_2]: each run of b neighbours is mixed by its own block.
TEST(Monarch, WithIdentitiesOnTheLeftIsBlockDiagonal) {
  const int64_t max_length = 20, a = 4;
  for (const int64_t L : {20, 13}) {
    const auto c = random_case("monarch", sizes(L, max_length), torch::kFloat64, 19);
    weight(c, "left").copy_(torch::eye(a, torch::kFloat64).expand_as(weight(c, "left")));
    auto expected = torch::empty({2, L, L}, torch::kFloat64);
    for (int64_t h = 0; h < 2; ++h)
      expected[h] =
          torch::block_diag(weight(c, "right")[h].unbind()).narrow(0, 0, L).narrow(1, 0, L);
    EXPECT_TRUE(torch::equal(matrix(c), expected)) << L;
    expect_close(c.mixer->mix(c.x, c.params).detach(), dense_apply(expected.unsqueeze(0), c.x),
                 1e-14, concat("product, L = ", L));
  }
}

TEST(Monarch, HasRankOneFromEachRunToEachSetOfEquals) {
  const int64_t a = 5, b = 5;
  const auto c = random_case("monarch", sizes(a * b, a * b), torch::kFloat64, 7);
  const auto M = matrix(c)[0].view({a, b, a, b});  // i_1, i_2, j_1, j_2
  const auto second_singular_value = [](const torch::Tensor& block) {
    const auto s = torch::linalg_svdvals(block);
    return (s[1] / s[0]).item<double>();
  };
  for (int64_t i_2 = 0; i_2 < b; ++i_2)
    for (int64_t j_1 = 0; j_1 < a; ++j_1)
      EXPECT_LT(second_singular_value(M.select(1, i_2).select(1, j_1)), 1e-14);
  // Other blocks of that size have full rank.
  EXPECT_GT(second_singular_value(M.select(0, 1).select(1, 2)), 0.05);
}

TEST(Monarch, HoldsEveryButterfly) {
  const int64_t n = 16, m = 4;
  const auto butterfly = random_case("butterfly", sizes(n, n), torch::kFloat64, 8);
  const auto monarch = random_case("monarch", sizes(n, n), torch::kFloat64, 9);
  for (int64_t h = 0; h < 2; ++h) {
    const auto w = weight(butterfly, "factors")[h];
    const auto within = torch::matmul(factor(w, 1), factor(w, 0)).view({m, m, m, m}),
               across = torch::matmul(factor(w, 3), factor(w, 2)).view({m, m, m, m});
    for (int64_t block = 0; block < m; ++block) {
      weight(monarch, "right")[h][block].copy_(within.select(0, block).select(1, block));
      weight(monarch, "left")[h][block].copy_(across.select(1, block).select(2, block));
    }
  }
  expect_close(matrix(monarch), matrix(butterfly), 1e-14, "a butterfly as a Monarch matrix");
}

TEST(Monarch, StartsWithTheEnergyOfItsInput) {
  torch::manual_seed(10);
  const auto mixer = make_mixer("monarch", {2, 2}, {.max_length = 256});
  const auto M = mixer->materialize(torch::zeros({1, 256, 0}), 256)[0].detach();
  EXPECT_NEAR(M.square().sum(2).mean().item<double>(), 1, 0.1);
  EXPECT_NEAR(M.diagonal(0, 1, 2).square().mean().item<double>(), 0.64, 0.1);
}

TEST(MonarchConv, IsTheToeplitzMatrixOfItsKernelPlusTheIdentity) {
  const int64_t max_length = 40, L = 23;
  const auto c = random_case("monarch_conv", sizes(L, max_length), torch::kFloat64, 11);
  const auto middle = weight(c, "kernel").narrow(1, max_length - L, 2 * L - 1).unsqueeze(0);
  EXPECT_TRUE(torch::equal(matrix(c), toeplitz_matrix(middle)[0] + torch::eye(L, torch::kFloat64)));
}

// ---- all of them ----

class Structured : public ::testing::TestWithParam<std::string> {};

TEST_P(Structured, ShorterSequencesUseTheLeadingBlock) {
  const int64_t max_length = 70;
  const auto c = random_case(GetParam(), sizes(max_length, max_length), torch::kFloat64, 12);
  const auto M = matrix(c);
  for (const int64_t L : {1, 2, 8, 9, 63, 64, 65})
    expect_close(c.mixer->materialize(c.params.narrow(1, 0, L), L)[0].detach(),
                 M.narrow(1, 0, L).narrow(2, 0, L), 1e-14, GetParam());
}

TEST_P(Structured, EveryLengthUpToSmallMaximaWorks) {
  for (const int64_t max_length : {1, 2, 3, 4, 5, 10, 17})
    for (int64_t L = 1; L <= max_length; ++L) {
      const auto c = random_case(GetParam(), sizes(L, max_length), torch::kFloat64, 13);
      expect_close(c.mixer->mix(c.x, c.params), dense_apply(c.mixer->materialize(c.params, L), c.x),
                   1e-13,
                   GetParam() + " at " + std::to_string(L) + " of " + std::to_string(max_length));
    }
}

TEST_P(Structured, LongSequencesEqualTheMatrixWithTheirGradients) {
  struct Length {
    int64_t L, max_length;
  };
  for (const auto [L, max_length] : {Length{257, 500}, Length{1009, 1009}, Length{400, 1500}}) {
    auto c = random_case(GetParam(), sizes(L, max_length, {1, 3}, 2), torch::kFloat64, 14);
    const std::string what = GetParam() + " at L = " + std::to_string(L);
    c.x.requires_grad_();
    std::vector<torch::Tensor> inputs{c.x};
    for (const auto& p : c.mixer->parameters()) inputs.push_back(p);
    const auto fast = c.mixer->mix(c.x, c.params);
    const auto dense = dense_apply(c.mixer->materialize(c.params, L), c.x);
    // 1e-12: sums of 1000 terms of order one, in another order.
    expect_close(fast.detach(), dense.detach(), 1e-12, what);
    const auto dy = torch::randn_like(fast);
    const auto a = torch::autograd::grad({fast}, inputs, {dy}),
               b = torch::autograd::grad({dense}, inputs, {dy});
    for (std::size_t i = 0; i < inputs.size(); ++i)
      expect_close(a[i], b[i], 1e-12, what + ", gradient " + std::to_string(i));
  }
}

TEST_P(Structured, Float32IsCloseToFloat64AtLongLengths) {
  const int64_t L = 1500;
  const auto exact = random_case(GetParam(), sizes(L, L), torch::kFloat64, 15);
  const auto single = random_case(GetParam(), sizes(L, L), torch::kFloat32, 15);
  // Up to 22 factors, or 2 x 80 terms, of rounding 6e-8; errors add as a random walk.
  expect_close(single.mixer->mix(single.x, single.params).detach(),
               exact.mixer->mix(exact.x, exact.params).detach(), 2e-6, GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, Structured, ::testing::ValuesIn(kNames), test::parameter_name);

}  // namespace
}  // namespace hydramix
