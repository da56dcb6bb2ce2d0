// SPDX-License-Identifier: Apache-2.0
// S6 against the equations of its paper, and against Mamba-2.
#include <cmath>

#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;
using test::random_case;

// h_t = exp(dt A) h + dt B x, y = C h + D x with dt, B and C projected from x: algorithm 2 of the
// paper, from the weights on.
TEST(SelectiveStateSpace, EqualsAlgorithm2OfThePaper) {
  const int64_t C = 40, N = 3, L = 21, rank = 2;  // ceil(40 / 32)
  const auto c = random_case("s6", {.B = 1, .L = L, .heads = {C, 1}, .options = {.d_state = N}},
                             torch::kFloat64, 51);
  auto w = c.mixer->named_parameters();
  ASSERT_EQ(w["x_proj.weight"].sizes(), (std::vector<int64_t>{rank + 2 * N, C}));
  ASSERT_EQ(w["dt_proj.weight"].sizes(), (std::vector<int64_t>{C, rank}));
  const auto x = c.x[0].squeeze(2);  // (L, C)
  const auto projected = x.matmul(w["x_proj.weight"].t());
  const auto raw = projected.narrow(1, 0, rank).matmul(w["dt_proj.weight"].t());
  const auto dt = torch::log1p(torch::exp(raw + w["dt_proj.bias"]));
  const auto A = -w["A_log"].exp();
  auto h = torch::zeros({C, N}, torch::kFloat64);
  std::vector<torch::Tensor> y;
  for (int64_t t = 0; t < L; ++t) {
    const auto b = projected[t].narrow(0, rank, N), cc = projected[t].narrow(0, rank + N, N);
    h = torch::exp(dt[t].unsqueeze(1) * A) * h + torch::outer(dt[t] * x[t], b);
    y.push_back(h.matmul(cc) + w["D"] * x[t]);
  }
  const auto params = c.mixer->derive(torch::zeros({1, L, 0}, torch::kFloat64), c.x);
  expect_close(c.mixer->mix(c.x, params).squeeze(3)[0], torch::stack(y), 1e-12, "algorithm 2");
}

TEST(SelectiveStateSpace, WithEqualDecaysIsMamba2) {
  const int64_t H = 3, P = 4, N = 5, L = 30;
  const test::CaseSizes sizes{.B = 2, .L = L, .heads = {H, P}, .options = {.d_state = N}};
  const auto s6 = random_case("s6", sizes, torch::kFloat64, 53);
  const auto ssd = random_case("semiseparable", sizes, torch::kFloat64, 53);
  torch::NoGradGuard no_grad;
  auto w = s6.mixer->named_parameters(), v = ssd.mixer->named_parameters();
  w["A_log"].copy_(v["A_log"].unsqueeze(1).expand({H, N}));
  w["D"].copy_(v["D"]);
  w["dt_proj.bias"].copy_(v["dt_bias"]);
  const auto p = s6.params;  // raw dt, b, c; Mamba-2 has b, c, raw dt
  const auto reordered = torch::cat({p.narrow(2, H, 2 * N), p.narrow(2, 0, H)}, 2);
  expect_close(s6.mixer->mix(s6.x, p), ssd.mixer->mix(s6.x, reordered), 1e-12, "mix");
  expect_close(s6.mixer->materialize(p, L), ssd.mixer->materialize(reordered, L), 1e-12, "matrix");
}

// Without data dependence it is a convolution: toeplitz_di with that kernel, zero above the
// diagonal.
TEST(SelectiveStateSpace, WithConstantStepBAndCIsAToeplitzMatrix) {
  const int64_t H = 3, N = 4, L = 20;
  const test::CaseSizes sizes{
      .B = 1, .L = L, .heads = {H, 2}, .options = {.d_state = N, .max_length = L}};
  const auto s6 = random_case("s6", sizes, torch::kFloat64, 59);
  const auto toeplitz = random_case("toeplitz_di", sizes, torch::kFloat64, 59);
  torch::NoGradGuard no_grad;
  const auto p = s6.params.narrow(1, 0, 1);  // of one token
  auto w = s6.mixer->named_parameters();
  const auto dt = torch::softplus(p[0][0].narrow(0, 0, H) + w["dt_proj.bias"]).unsqueeze(1);
  const auto b = p[0][0].narrow(0, H, N), c = p[0][0].narrow(0, H + N, N);
  auto kernel = torch::zeros({H, 2 * L - 1}, torch::kFloat64);  // lag -(L - 1) first
  for (int64_t lag = 0; lag < L; ++lag) {
    const auto powers = torch::exp(-static_cast<double>(lag) * dt * w["A_log"].exp());  // (H, N)
    kernel.select(1, L - 1 + lag).copy_((dt * powers * b * c).sum(1));
  }
  kernel.select(1, L - 1).add_(w["D"] - 1);  // toeplitz_di has the identity on its diagonal
  toeplitz.mixer->named_parameters()["conv_params"].copy_(kernel * 2 *
                                                          std::sqrt(static_cast<double>(L)));
  expect_close(s6.mixer->mix(s6.x, p.expand({1, L, -1})),
               toeplitz.mixer->mix(s6.x, toeplitz.params), 1e-12, "a convolution");
}

TEST(SelectiveStateSpace, StartsAsPublished) {
  torch::manual_seed(3);
  const auto mixer = make_mixer("s6", {96, 1}, {.d_state = 16});
  const auto w = mixer->named_parameters();
  expect_close(-w["A_log"].exp(), -torch::arange(1, 17).to(torch::kFloat32).expand({96, 16}), 1e-6,
               "A");
  const auto dt = torch::softplus(w["dt_proj.bias"]);
  EXPECT_GE(dt.min().item<double>(), 0.99e-3);
  EXPECT_LE(dt.max().item<double>(), 1.01e-1);
  EXPECT_LE(w["dt_proj.weight"].abs().max().item<double>(), 1 / std::sqrt(3.0));
}

}  // namespace
}  // namespace hydramix
