// SPDX-License-Identifier: Apache-2.0
// S4ND against its definition: a convolution over a grid with an outer product of two kernels.
#include <cmath>
#include <complex>

#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;
using test::random_case;

// k_l of head h for any lag, from the weights of an axis: zero-order hold, one c per direction.
double axis_kernel(const Mixer& mixer, const std::string& axis, int64_t h, int64_t lag) {
  const auto w = mixer.named_parameters();
  const double dt = std::exp(w[axis + ".log_dt"][h].item<double>());
  const auto C = w[axis + ".C"][lag >= 0 ? 0 : 1][h];
  const auto steps = static_cast<double>(lag >= 0 ? lag : -lag - 1);
  double sum = 0;
  for (int64_t n = 0; n < C.size(0); ++n) {
    const std::complex<double> A{-std::exp(w[axis + ".log_A_real"][h][n].item<double>()),
                                 w[axis + ".A_imag"][h][n].item<double>()};
    const std::complex<double> c{C[n][0].item<double>(), C[n][1].item<double>()};
    sum += 2 * (c * (std::exp(dt * A) - 1.0) / A * std::exp(dt * A * steps)).real();
  }
  return sum;
}

TEST(S4Nd, IsTheOuterProductOfTwoKernelsOverTheGrid) {
  const torch::NoGradGuard no_grad;
  const int64_t W = 5;
  for (const int64_t L :
       {1, 4, 5, 13, 20}) {  // part of a row, a row, an incomplete and a full grid
    const test::CaseSizes sizes{
        .B = 1, .L = L, .heads = {2, 1}, .options = {.d_state = 4, .grid_width = W}};
    const auto c = random_case("s4nd", sizes, torch::kFloat64, 61);
    const auto M = c.mixer->materialize(c.params, L)[0];
    for (int64_t h = 0; h < 2; ++h) {
      auto expected = c.mixer->named_parameters()["D"][h] * torch::eye(L, torch::kFloat64);
      for (int64_t i = 0; i < L; ++i)
        for (int64_t j = 0; j < L; ++j)
          expected[i][j] += axis_kernel(*c.mixer, "vertical", h, i / W - j / W) *
                            axis_kernel(*c.mixer, "horizontal", h, i % W - j % W);
      expect_close(M[h], expected, 1e-12, "L = " + std::to_string(L));
    }
  }
}

// The grid is large enough for FFTs along both axes.
TEST(S4Nd, AppliesItsMatrixByFftsAlongBothAxes) {
  const test::CaseSizes sizes{
      .B = 2, .L = 45 * 40 - 7, .heads = {2, 3}, .options = {.d_state = 4, .grid_width = 40}};
  auto c = random_case("s4nd", sizes, torch::kFloat64, 62);
  c.x.requires_grad_();
  std::vector<torch::Tensor> inputs{c.x};
  for (const auto& p : c.mixer->parameters()) inputs.push_back(p);
  const auto fast = c.mixer->mix(c.x, c.params);
  const auto dense = dense_apply(c.mixer->materialize(c.params, sizes.L), c.x);
  expect_close(fast, dense, 1e-11, "product");
  const auto dy = torch::randn_like(fast);
  const auto a = torch::autograd::grad({fast}, inputs, {dy});
  const auto b = torch::autograd::grad({dense}, inputs, {dy});
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect_close(a[i], b[i], 1e-10, "gradient of input " + std::to_string(i));
}

}  // namespace
}  // namespace hydramix
