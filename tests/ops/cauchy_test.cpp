// SPDX-License-Identifier: Apache-2.0
#include "ops/cauchy.h"

#include "hydramix/error.h"
#include "ops/head_batch.h"
#include "support/expect.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;

struct CauchyCase {
  torch::Tensor a, b;  // (S or 1, H, L, d)
  torch::Tensor x;     // (S, L, H, P)
  Exponentials sum;
};

struct CauchySizes {
  int64_t S = 2, H = 2, L = 5, d = 2, P = 3;
  bool shared = false;
  double low = 0.1, high = 100;  // of the nodes
};

CauchyCase random_nodes(const CauchySizes& n, torch::ScalarType dtype) {
  const auto exact = torch::TensorOptions(torch::kFloat64);
  const auto node = [&] {
    const auto u = torch::rand({n.shared ? 1 : n.S, n.H, n.L, n.d}, exact);
    auto t = (std::log(n.low) + u * std::log(n.high / n.low)).exp();
    t.select(2, 0).fill_(n.low);  // both ends occur
    t.select(2, n.L - 1).fill_(n.high);
    return t.to(dtype);
  };
  const double tolerance = dtype == torch::kFloat64 ? std::numeric_limits<double>::epsilon()
                                                    : std::numeric_limits<float>::epsilon();
  return {node(), node(), torch::randn({n.S, n.L, n.H, n.P}, exact).to(dtype),
          ReciprocalRule(tolerance).on(2 * n.low, 2 * n.high)};
}

// (S or 1, H, L, L), by the definition.
torch::Tensor matrix(const torch::Tensor& a, const torch::Tensor& b) {
  return (a.unsqueeze(3) + b.unsqueeze(2)).reciprocal().sum(4);
}

TEST(CauchyProduct, EveryEntryOfTheMatrixIsAsAccurateAsTheArithmetic) {
  for (const auto& [low, high] : {std::pair{1e-3, 1e6}, {0.5, 100.0}, {1e-8, 1e12}, {3.0, 3.0}})
    for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
      auto c = random_nodes({.S = 1, .H = 1, .L = 101, .d = 1, .P = 101, .low = low, .high = high},
                            dtype);
      c.x = torch::eye(101, c.x.options()).view({1, 101, 1, 101});
      const auto M = cauchy_product(c.a, c.b, c.x, c.sum).squeeze(2).to(torch::kFloat64);
      const auto exact = matrix(c.a.to(torch::kFloat64), c.b.to(torch::kFloat64)).squeeze(1);
      // The rule's epsilon, and about as much from t, from w, from the exponentials' arguments
      // and from the sum: measured 2.5 epsilon in float32, 9 in float64.
      const double tolerance = dtype == torch::kFloat64 ? 1e-14 : 8e-7;
      EXPECT_LE((M / exact - 1).abs().max().item<double>(), tolerance) << low << " to " << high;
    }
}

TEST(CauchyProduct, EqualsTheMatrixWithGradientsAtEveryLength) {
  torch::manual_seed(1);
  const auto probe = random_nodes({}, torch::kFloat64);
  const int64_t rank = 2 * static_cast<int64_t>(probe.sum.t.size());
  const int64_t T = piece_length(rank, probe.a);
  for (const bool shared : {false, true})
    for (const int64_t L : {int64_t{1}, int64_t{2}, int64_t{31}, T - 1, T, T + 1, 2 * T + 1}) {
      const auto what = "L = " + std::to_string(L) + (shared ? ", shared" : "");
      auto c = random_nodes({.L = L, .shared = shared}, torch::kFloat64);
      for (auto* t : {&c.a, &c.b, &c.x}) t->requires_grad_();
      const std::vector<torch::Tensor> inputs{c.a, c.b, c.x};
      const auto fast = cauchy_product(c.a, c.b, c.x, c.sum);
      const auto dense = dense_apply(matrix(c.a, c.b), c.x);
      // A few roundings of terms of similar size; the gradients sum as many terms.
      expect_close(fast, dense, 1e-13, what);
      const auto dy = torch::randn_like(dense);
      const auto g = torch::autograd::grad({fast}, inputs, {dy});
      const auto expected = torch::autograd::grad({dense}, inputs, {dy});
      for (std::size_t i = 0; i < inputs.size(); ++i)
        expect_close(g[i], expected[i], 1e-13, what + ", gradient " + std::to_string(i));
    }
}

TEST(CauchyProduct, ComputesOnlyNeededGradients) {
  torch::manual_seed(2);
  auto c = random_nodes({.L = 40}, torch::kFloat64);
  c.b.requires_grad_();
  const auto y = cauchy_product(c.a, c.b, c.x, c.sum), dy = torch::randn_like(c.x);
  const auto dense = dense_apply(matrix(c.a, c.b), c.x);
  expect_close(torch::autograd::grad({y}, {c.b}, {dy})[0],
               torch::autograd::grad({dense}, {c.b}, {dy})[0], 1e-13, "b alone");
}

TEST(CauchyProduct, TakesNonContiguousTensorsAndInferenceMode) {
  torch::manual_seed(3);
  const auto c = random_nodes({.L = 50}, torch::kFloat64);
  const auto turned = [](const torch::Tensor& t) {
    return t.permute({3, 2, 1, 0}).contiguous().permute({3, 2, 1, 0});
  };
  const auto y = cauchy_product(c.a, c.b, c.x, c.sum);
  EXPECT_TRUE(torch::equal(cauchy_product(turned(c.a), turned(c.b), turned(c.x), c.sum), y));
  const c10::InferenceMode inference;
  EXPECT_TRUE(torch::equal(cauchy_product(c.a, c.b, c.x, c.sum), y));
}

TEST(CauchyProduct, DoesNotDependOnTheNumberOfThreads) {
  torch::manual_seed(4);
  const auto c = random_nodes({.L = 700, .P = 40}, torch::kFloat32);
  const int threads = torch::get_num_threads();
  torch::set_num_threads(1);
  const auto one = cauchy_product(c.a, c.b, c.x, c.sum);
  torch::set_num_threads(3);
  const auto three = cauchy_product(c.a, c.b, c.x, c.sum);
  torch::set_num_threads(threads);
  EXPECT_TRUE(torch::equal(one, three));
}

TEST(CauchyProduct, SecondDerivativesAreRefused) {
  auto c = random_nodes({}, torch::kFloat64);
  c.a.requires_grad_();
  const auto y = cauchy_product(c.a, c.b, c.x, c.sum).sum();
  EXPECT_THROW_WITH(torch::autograd::grad({y}, {c.a}, {}, true, /*create_graph=*/true), Error,
                    "Differentiate materialize(params, L) @ x instead");
}

// Sums of up to 200 terms of both signs.
TEST(CauchyMatrix, IsItsDefinitionWithItsGradients) {
  torch::manual_seed(5);
  for (const bool shared : {false, true})
    for (const int64_t L : {1, 7, 200}) {  // 200: several pieces
      const auto what = "L = " + std::to_string(L) + (shared ? ", shared" : "");
      auto c = random_nodes({.L = L, .d = 3, .shared = shared}, torch::kFloat64);
      ASSERT_EQ(L > piece_length(L * 3, c.a), L == 200);
      for (auto* t : {&c.a, &c.b})
        *t = t->transpose(2, 3).contiguous().transpose(2, 3).requires_grad_();
      const auto M = cauchy_matrix(c.a, c.b), expected = matrix(c.a, c.b);
      expect_close(M, expected, 1e-14, what);
      const auto dM = torch::randn_like(expected);
      const auto g = torch::autograd::grad({M}, {c.a, c.b}, {dM});
      const auto exact = torch::autograd::grad({expected}, {c.a, c.b}, {dM});
      for (std::size_t i = 0; i < 2; ++i)
        expect_close(g[i], exact[i], 1e-13, what + ", gradient " + std::to_string(i));
    }
  auto c = random_nodes({}, torch::kFloat64);
  const auto sum = cauchy_matrix(c.a.requires_grad_(), c.b).sum();
  EXPECT_THROW_WITH(torch::autograd::grad({sum}, {c.a}, {}, true, /*create_graph=*/true), Error,
                    "Differentiate materialize(params, L) @ x instead");
}

}  // namespace
}  // namespace hydramix
