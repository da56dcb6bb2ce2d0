// SPDX-License-Identifier: Apache-2.0
// Matrices that are butterflies, exactly: Fourier transforms and, in BB*, circulants. Their factors
// are complex. (tests/mixers/butterfly_test.cpp has the real ones.)
#include "ops/butterfly.h"

#include <cmath>

#include "hydramix/error.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;

constexpr auto kComplex = torch::kComplexDouble;

torch::Tensor complex_of(const torch::Tensor& angle) {
  return torch::polar(torch::ones_like(angle), angle);
}

// F_jk = exp(sign 2 pi i j k / n), from the definition.
torch::Tensor fourier(int64_t n, double sign) {
  const auto i = torch::arange(n, torch::kFloat64);
  return complex_of(sign * 2 * M_PI / static_cast<double>(n) * torch::outer(i, i).remainder(n));
}

// The factors of Cooley and Tukey, (1, K, n / 2, 2, 2): at stride 2^k, pair r of each run has the
// block [1 w; 1 -w] with w = exp(sign 2 pi i r / 2^{k+1}).
torch::Tensor cooley_tukey(int64_t K, double sign) {
  const int64_t n = int64_t{1} << K;
  auto w = torch::empty({1, K, n / 2, 2, 2}, kComplex);
  for (int64_t k = 0; k < K; ++k) {
    const int64_t stride = int64_t{1} << k;
    const auto r = torch::arange(n / 2, torch::kFloat64).remainder(stride);
    const auto twiddle = complex_of(sign * M_PI / static_cast<double>(stride) * r);
    const auto one = torch::ones_like(twiddle);
    w[0][k] =
        torch::stack({torch::stack({one, twiddle}, -1), torch::stack({one, -twiddle}, -1)}, -2);
  }
  return w;
}

// reversed[i] is i with its K bits in the opposite order.
torch::Tensor bit_reversal(int64_t K) {
  const auto i = torch::arange(int64_t{1} << K);
  auto reversed = torch::zeros_like(i);
  for (int64_t k = 0; k < K; ++k)
    reversed = 2 * reversed + i.div(int64_t{1} << k, "floor").remainder(2);
  return reversed;
}

void expect_complex(const torch::Tensor& a, const torch::Tensor& b, double tolerance,
                    const std::string& what) {
  expect_close(torch::view_as_real(a.contiguous()), torch::view_as_real(b.contiguous()), tolerance,
               what);
}

TEST(ButterflyOp, TheFourierTransformIsAButterflyAfterABitReversal) {
  for (const int64_t K : {1, 2, 5, 9}) {
    const int64_t n = int64_t{1} << K;
    const auto w = cooley_tukey(K, -1);
    const auto B = butterfly_matrix(w, n, n)[0];
    // B multiplies the reversed input: column j of F is column reversed[j] of B.
    const auto F = B.index_select(1, bit_reversal(K));
    expect_complex(F, fourier(n, -1), 1e-12, concat("n = ", n));
    const auto x = torch::randn({1, n, 3}, kComplex);
    const auto y = butterfly_product(w, x.index_select(1, bit_reversal(K)), false);
    expect_complex(y, torch::fft::fft(x, n, 1), 1e-13, concat("product, n = ", n));
  }
}

// C = F^-1 D F with F symmetric: F = P B^T and F^-1 = conj(B) P / n, so that the two reversals
// cancel and C = (conj(B) D' / n) B^T, D' the reversed spectrum.
TEST(ButterflyOp, ACirculantIsInBBStar) {
  const int64_t K = 6, n = 64;
  torch::manual_seed(1);
  const auto kernel = torch::randn({n}, torch::kFloat64);
  const auto right = cooley_tukey(K, -1);
  auto left = cooley_tukey(K, 1);
  const auto spectrum = torch::fft::fft(kernel).index_select(0, bit_reversal(K)) / n;
  // A diagonal before the first factor scales the columns of its blocks: places 2 p and 2 p + 1.
  left[0][0] = left[0][0] * spectrum.view({n / 2, 1, 2});
  auto circulant = torch::empty({n, n}, torch::kFloat64);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) circulant[i][j] = kernel[(i - j + n) % n];
  const auto C =
      torch::matmul(butterfly_matrix(left, n, n)[0], butterfly_matrix(right, n, n)[0].t());
  expect_complex(C, circulant.to(kComplex), 1e-13, "matrix");
  const auto x = torch::randn({1, n, 2}, torch::kFloat64).to(kComplex);
  const auto y = butterfly_product(left, butterfly_product(right, x, true), false);
  expect_complex(y[0], torch::matmul(circulant.to(kComplex), x[0]), 1e-13, "product");
}

TEST(ButterflyOp, TheTransposeIsTheTransposedMatrix) {
  torch::manual_seed(2);
  const auto w = torch::randn({2, 6, 32, 2, 2}, torch::kFloat64);
  const auto v = torch::randn({2, 64, 3}, torch::kFloat64);
  const auto B = butterfly_matrix(w, 64, 64);
  expect_close(butterfly_product(w, v, false), torch::matmul(B, v), 1e-13, "B");
  expect_close(butterfly_product(w, v, true), torch::matmul(B.transpose(1, 2), v), 1e-13, "B^T");
}

}  // namespace
}  // namespace hydramix
