// SPDX-License-Identifier: Apache-2.0
#include "ops/monarch_dft.h"

#include "ops/toeplitz.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;

TEST(MonarchDft, IsTheDft) {
  for (const int64_t least : {1, 2, 3, 5, 8, 31, 64, 200, 1999}) {
    torch::manual_seed(least);
    const MonarchDft dft(least, torch::kFloat64);
    const int64_t N = dft.size();
    ASSERT_GE(N, least);
    ASSERT_LE(N, least + std::sqrt(least));  // little padding
    const auto v = torch::randn({2, N, 3}, torch::kFloat64);
    const auto f = torch::fft::fft(v, N, 1);  // (S, N, C)
    const auto spectrum = dft.forward(v);     // (S, rows, 2, b, C)
    const int64_t b = spectrum.size(3), a = N / b;
    ASSERT_EQ(spectrum.size(1), a / 2 + 1);
    const auto expected = f.view({2, b, a, 3}).transpose(1, 2).narrow(1, 0, a / 2 + 1);
    expect_close(spectrum, torch::stack({torch::real(expected), torch::imag(expected)}, 2), 1e-13,
                 "N " + std::to_string(N));
    expect_close(dft.inverse(spectrum, N), v, 1e-13, "back, N " + std::to_string(N));
  }
}

TEST(MonarchDft, ShortInputsAreZeroPaddedAndOutputsCanBeTruncated) {
  const MonarchDft dft(200, torch::kFloat64);
  const auto v = torch::randn({1, 77, 2}, torch::kFloat64);
  const auto spectrum = dft.forward(v);
  expect_close(spectrum, dft.forward(torch::constant_pad_nd(v, {0, 0, 0, dft.size() - 77})), 1e-14,
               "padded");
  expect_close(dft.inverse(spectrum, 50), v.narrow(1, 0, 50), 1e-13, "the first places");
}

TEST(MonarchDft, ToeplitzProductEqualsTheMatrixWithItsGradients) {
  for (const int64_t L : {1, 2, 3, 16, 17, 127, 128, 131, 1000}) {
    torch::manual_seed(L);
    for (const int64_t kernels : {1, 2}) {
      const auto t = torch::randn({kernels, 3, 2 * L - 1}, torch::kFloat64).requires_grad_();
      const auto x = torch::randn({L, 2, 3, 4}, torch::kFloat64).transpose(0, 1).requires_grad_();
      const auto dense =
          torch::matmul(toeplitz_matrix(t), x.permute({0, 2, 1, 3})).permute({0, 2, 1, 3});
      const auto fast = monarch_toeplitz_product(t, x);
      const std::string what = "L " + std::to_string(L);
      expect_close(fast, dense, 1e-13, what);
      const auto single = monarch_toeplitz_product(t.to(torch::kFloat32), x.to(torch::kFloat32));
      expect_close(single, dense, 2e-6, "float32, " + what);
      const auto dy = torch::randn_like(dense);
      const auto a = torch::autograd::grad({fast}, {t, x}, {dy}),
                 b = torch::autograd::grad({dense}, {t, x}, {dy});
      expect_close(a[0], b[0], 1e-13, what + ", gradient of t");
      expect_close(a[1], b[1], 1e-13, what + ", gradient of x");
    }
  }
}

}  // namespace
}  // namespace hydramix
