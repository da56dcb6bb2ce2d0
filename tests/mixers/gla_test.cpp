// SPDX-License-Identifier: Apache-2.0
// Gated linear attention against the equations of its paper, and against Mamba-2.
#include <cmath>

#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;
using test::random_case;

double sigmoid_of(double v) { return 1 / (1 + std::exp(-v)); }

// S_t = diag(alpha_t) S + k_t v_t^T, o_t = q_t S_t / sqrt(d), alpha = sigmoid(x W1 W2 + b)^(1/16):
// equations 3 and 4 of the paper.
TEST(GatedLinearAttention, EqualsTheRecurrenceOfThePaper) {
  const int64_t H = 2, P = 3, d = 4, L = 40;
  const auto c =
      random_case("gla", {.B = 1, .L = L, .heads = {H, P}, .options = {.qk_dim = d, .tile = 16}},
                  torch::kFloat64, 55);
  const auto w = c.mixer->named_parameters();
  const auto projected = torch::randn({1, L, 2 * H * d + 16}, torch::kFloat64);
  const auto logits =
      projected[0].narrow(1, 2 * H * d, 16).matmul(w["gk_proj.weight"].t()) + w["gk_proj.bias"];
  auto expected = torch::zeros({1, L, H, P}, torch::kFloat64);
  for (int64_t h = 0; h < H; ++h) {
    std::vector<std::vector<double>> S(d, std::vector<double>(P));
    for (int64_t t = 0; t < L; ++t)
      for (int64_t e = 0; e < d; ++e) {
        const double q = projected[0][t][h * d + e].item<double>(),
                     k = projected[0][t][(H + h) * d + e].item<double>(),
                     alpha = std::pow(sigmoid_of(logits[t][h * d + e].item<double>()), 1.0 / 16);
        for (int64_t p = 0; p < P; ++p) {
          S[e][p] = alpha * S[e][p] + k * c.x[0][t][h][p].item<double>();
          expected[0][t][h][p] += q * S[e][p] / std::sqrt(static_cast<double>(d));
        }
      }
  }
  expect_close(c.mixer->mix(c.x, c.mixer->derive(projected, c.x)), expected, 1e-12, "gla");
}

// With gates exp(dt A), k = dt b and no scale it is Mamba-2 with one group per head.
TEST(GatedLinearAttention, WithEqualGatesIsMamba2) {
  const int64_t H = 2, d = 3, L = 25;
  const auto ssd = random_case(
      "semiseparable", {.B = 1, .L = L, .heads = {H, 2}, .options = {.d_state = d, .groups = H}},
      torch::kFloat64, 57);
  const auto gla = random_case("gla", {.B = 1, .L = L, .heads = {H, 2}, .options = {.qk_dim = d}},
                               torch::kFloat64, 57);
  const auto w = ssd.mixer->named_parameters();
  const auto p = ssd.params;
  const auto b = p.narrow(2, 0, H * d).view({1, L, H, d}), c = p.narrow(2, H * d, H * d);
  const auto dt = torch::softplus(p.narrow(2, 2 * H * d, H) + w["dt_bias"]);
  // The logit whose sigmoid is exp(16 dt A).
  const auto log_gate = 16 * dt * -w["A_log"].exp();
  const auto logit = log_gate - torch::log(-torch::expm1(log_gate));
  const auto params =
      torch::cat({c * std::sqrt(static_cast<double>(d)), (dt.unsqueeze(-1) * b).flatten(2),
                  logit.unsqueeze(-1).expand({1, L, H, d}).flatten(2)},
                 2);
  const auto skip = w["D"].unsqueeze(1) * ssd.x;
  expect_close(gla.mixer->mix(ssd.x, params) + skip, ssd.mixer->mix(ssd.x, p), 1e-12, "SSD");
}

}  // namespace
}  // namespace hydramix
