// SPDX-License-Identifier: Apache-2.0
#include "ops/toeplitz.h"

#include "ops/cosine.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;

TEST(Toeplitz, LagsStandWhereTheyBelong) {
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

TEST(Toeplitz, FastSizesHaveSmallFactors) {
  EXPECT_EQ(fast_fft_size(1), 1);
  EXPECT_EQ(fast_fft_size(7), 8);
  EXPECT_EQ(fast_fft_size(97), 100);
  EXPECT_EQ(fast_fft_size(4097), 4320);
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
