// SPDX-License-Identifier: Apache-2.0
#include "ops/toeplitz.h"

#include "ops/cosine.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;

TEST(Toeplitz, LagsAreOnTheirDiagonals) {
  const auto t = torch::arange(5, torch::kFloat64).view({1, 1, 5});  // lags -2 .. 2
  EXPECT_TRUE(
      torch::equal(toeplitz_matrix(t)[0][0],
                   torch::tensor({{2., 1., 0.}, {3., 2., 1.}, {4., 3., 2.}}, torch::kFloat64)));
}

TEST(Toeplitz, ProductEqualsMatrixAtAnyLength) {
  for (const int64_t L : {1, 2, 3, 16, 17, 127, 128, 131}) {
    torch::manual_seed(L);
    const auto t = torch::randn({2, 3, 2 * L - 1}, torch::kFloat64),
               x = torch::randn({2, L, 3, 4}, torch::kFloat64);
    const auto dense =
        torch::matmul(toeplitz_matrix(t), x.permute({0, 2, 1, 3})).permute({0, 2, 1, 3});
    expect_close(toeplitz_product(t, x), dense, 1e-13, "L " + std::to_string(L));
    const auto single = toeplitz_product(t.to(torch::kFloat32), x.to(torch::kFloat32));
    expect_close(single, dense, 2e-6, "float32, L " + std::to_string(L));
  }
}

TEST(Toeplitz, GradientsEqualThoseOfTheMatrix) {
  for (const int64_t L : {1, 2, 17, 130})
    for (const int64_t kernels : {1, 2}) {  // one for all sequences, or one per sequence
      torch::manual_seed(L);
      const auto t = torch::randn({kernels, 3, 2 * L - 1}, torch::kFloat64).requires_grad_(),
                 x = torch::randn({2, L, 3, 5}, torch::kFloat64).requires_grad_();
      const auto dy = torch::randn_like(x);
      const auto fast = torch::autograd::grad({toeplitz_product(t, x)}, {t, x}, {dy});
      const auto dense = torch::autograd::grad({dense_apply(toeplitz_matrix(t), x)}, {t, x}, {dy});
      expect_close(fast[0], dense[0], 1e-13, "t, L " + std::to_string(L));
      expect_close(fast[1], dense[1], 1e-13, "x, L " + std::to_string(L));
    }
}

TEST(Toeplitz, CanBeDifferentiatedTwice) {
  const auto t = torch::randn({1, 2, 33}, torch::kFloat64).requires_grad_(),
             x = torch::randn({2, 17, 2, 3}, torch::kFloat64).requires_grad_();
  const auto second = [&](const torch::Tensor& y) {
    const auto dx = torch::autograd::grad({y.pow(2).sum()}, {x}, {}, true, true)[0];
    return torch::autograd::grad({dx.pow(2).sum()}, {t, x});
  };
  const auto fast = second(toeplitz_product(t, x)),
             dense = second(dense_apply(toeplitz_matrix(t), x));
  expect_close(fast[0], dense[0], 1e-12, "t");
  expect_close(fast[1], dense[1], 1e-12, "x");
}

TEST(Toeplitz, Float32IsExactAtLongLengths) {
  for (const int64_t L : {1024, 8191, 65536}) {
    torch::manual_seed(L);
    const auto t = torch::randn({1, 1, 2 * L - 1}).requires_grad_(),
               x = torch::randn({1, L, 1, 5}).requires_grad_(), dy = torch::randn({1, L, 1, 5});
    const auto wide = [](const torch::Tensor& v) {
      return v.detach().to(torch::kFloat64).requires_grad_();
    };
    const auto T = wide(t), X = wide(x);
    const auto y = toeplitz_product(t, x), truth = toeplitz_product(T, X);
    // An FFT rounds about log2(n) times: 17 times 6e-8 of the root mean square, at the worst place.
    expect_close(y, truth, 2e-6, "L " + std::to_string(L));
    const auto single = torch::autograd::grad({y}, {t, x}, {dy}),
               exact = torch::autograd::grad({truth}, {T, X}, {wide(dy)});
    expect_close(single[0], exact[0], 2e-6, "t, L " + std::to_string(L));
    expect_close(single[1], exact[1], 2e-6, "x, L " + std::to_string(L));
  }
}

TEST(CosineTable, IsExactInFloat32AtLargeSizes) {
  const int64_t n = 4096;
  const auto table = cosine_table(n, n, n, torch::kFloat32);
  // (n - 1)^2 = 1 modulo n.
  EXPECT_FLOAT_EQ(table[n - 1][n - 1].item<float>(), std::cos(2 * M_PI / n));
  EXPECT_FLOAT_EQ(sine_table(n, n, n, torch::kFloat32)[n - 1][n - 1].item<float>(),
                  std::sin(2 * M_PI / n));
}

}  // namespace
}  // namespace hydramix
