// SPDX-License-Identifier: Apache-2.0
#include "ops/fourier.h"

#include "ops/cosine.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;

// (1, H, L, L) -> applied to every head.
torch::Tensor apply(const torch::Tensor& table, const torch::Tensor& x) {
  return dense_apply(table.expand({1, x.size(2), x.size(1), x.size(1)}), x);
}

TEST(CosineTransform, EqualsTheTableAtAnyLengthAndPeriod) {
  for (const int64_t L : {1, 2, 3, 8, 31, 100})
    for (const int64_t n : {L, L + 1, 2 * L - 2, 2 * L - 1, 2 * L, 3 * L + 1}) {
      if (n < L) continue;
      torch::manual_seed(L);
      const auto x = torch::randn({2, L, 3, 5}, torch::kFloat64).requires_grad_();
      const auto y = cosine_transform(x, n), dense = apply(cosine_table(L, L, n, x.options()), x);
      const auto dy = torch::randn_like(y);
      const auto what = "L " + std::to_string(L) + ", n " + std::to_string(n);
      expect_close(y, dense, 1e-13, what);
      expect_close(torch::autograd::grad({y}, {x}, {dy})[0],
                   torch::autograd::grad({dense}, {x}, {dy})[0], 1e-13, what + ", gradient");
    }
}

TEST(FourierTransform, EqualsTheTablesAtAnyLength) {
  for (const int64_t L : {1, 2, 3, 4, 5, 31, 100, 127}) {
    torch::manual_seed(L);
    const auto x = torch::randn({2, L, 3, 5}, torch::kFloat64).requires_grad_();
    const auto y = fourier_transform(x);
    const auto dense = torch::cat(
        {apply(cosine_table(L, L, L, x.options()), x), apply(-sine_table(L, L, L, x.options()), x)},
        2);
    const auto dy = torch::randn_like(y);
    expect_close(y, dense, 1e-13, "L " + std::to_string(L));
    expect_close(torch::autograd::grad({y}, {x}, {dy})[0],
                 torch::autograd::grad({dense}, {x}, {dy})[0], 1e-13,
                 "gradient, L " + std::to_string(L));
  }
}

TEST(FourierTransform, CanBeDifferentiatedTwice) {
  const auto x = torch::randn({1, 12, 2, 3}, torch::kFloat64).requires_grad_();
  const auto second = [&](const torch::Tensor& y) {
    const auto dx = torch::autograd::grad({y.pow(3).sum()}, {x}, {}, true, true)[0];
    return torch::autograd::grad({dx.pow(2).sum()}, {x})[0];
  };
  const auto options = x.options();
  expect_close(second(cosine_transform(x, 17)), second(apply(cosine_table(12, 12, 17, options), x)),
               1e-12, "cosine");
  const auto both = torch::cat(
      {apply(cosine_table(12, 12, 12, options), x), apply(-sine_table(12, 12, 12, options), x)}, 2);
  expect_close(second(fourier_transform(x)), second(both), 1e-12, "Fourier");
}

TEST(FourierTransform, ThreadsDoNotChangeABit) {
  const int threads = torch::get_num_threads();
  const auto x = torch::randn({3, 9000, 2, 11});
  torch::set_num_threads(1);
  const auto one = fourier_transform(x);
  torch::set_num_threads(2);
  EXPECT_TRUE(torch::equal(fourier_transform(x), one));
  torch::set_num_threads(threads);
}

// An O(L^2) transform of prime length would take 10^10 steps here.
TEST(FourierTransform, AcceptsLargePrimes) {
  const int64_t n = 99991;
  const auto x = torch::zeros({1, n, 1, 1}, torch::kFloat64);
  x[0][3] = 1;
  const auto i = torch::arange(n, torch::kInt64);
  const auto angle = (3 * i).remainder(n).to(torch::kFloat64) * (2 * M_PI / n);
  // (1, n, 2, 1): an FFT of such a length goes through one of twice the length, and rounds twice.
  expect_close(fourier_transform(x).flatten(),
               torch::stack({angle.cos(), -angle.sin()}, 1).flatten(), 1e-13, "prime length");
}

TEST(FastFftSize, HasSmallFactors) {
  EXPECT_EQ(fast_fft_size(1), 1);
  EXPECT_EQ(fast_fft_size(7), 8);
  EXPECT_EQ(fast_fft_size(97), 100);
  EXPECT_EQ(fast_fft_size(4097), 4320);
}

}  // namespace
}  // namespace hydramix
