// SPDX-License-Identifier: Apache-2.0
// H3 against its two recurrences (Dao, Fu et al. 2023, section 3 and algorithm 1): a state that
// shifts the keys, and complex states that take in products of keys and values.
#include <cmath>
#include <complex>

#include "support/equal_gradients.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;
using test::random_case;
using Complex = std::complex<double>;

// The discrete A and B of one pole.
std::pair<Complex, Complex> discrete_pole(const std::string& rule, Complex A, double dt) {
  if (rule == "bilinear")
    return {(1.0 + dt * A / 2.0) / (1.0 - dt * A / 2.0), dt / (1.0 - dt * A / 2.0)};
  return {std::exp(dt * A), (std::exp(dt * A) - 1.0) / A};
}

TEST(H3, IsAShiftAndADiagonalStateSpaceModelInTurn) {
  for (const std::string rule : {"zoh", "bilinear"})
    for (const int64_t d : {1, 3}) {
      const int64_t L = 11, H = 2, P = 2, N = 4;
      MixerOptions options;
      options.qk_dim = d;
      options.d_state = N;
      options.discretisation = rule;
      const auto c = random_case("h3", {.B = 1, .L = L, .heads = {H, P}, .options = options},
                                 torch::kFloat64, 40 + d);
      const auto w = c.mixer->named_parameters();
      const auto number = [](const torch::Tensor& t) { return t.item<double>(); };
      auto expected = torch::zeros({1, L, H, P}, torch::kFloat64);
      for (int64_t h = 0; h < H; ++h)
        for (int64_t p = 0; p < P; ++p)
          for (int64_t e = 0; e < d; ++e) {
            std::vector<double> shifted(N, 0.0);  // the last N keys, newest first
            std::vector<Complex> state(N / 2, 0.0);
            for (int64_t t = 0; t < L; ++t) {
              const double q = number(c.params[0][t][h * d + e]);
              const double key = number(c.params[0][t][H * d + h * d + e]);
              shifted.insert(shifted.begin(), key);
              shifted.pop_back();
              double k = number(w["shift_D"][h * d + e]) * key;
              for (int64_t s = 0; s < N; ++s)
                k += number(w["shift"][h][e][s]) * shifted[static_cast<std::size_t>(s)];
              const double kv = k * number(c.x[0][t][h][p]);
              double y = number(w["D"][h]) * kv;
              for (int64_t n = 0; n < N / 2; ++n) {
                const Complex A(-std::exp(number(w["kernel.log_A_real"][h][n])),
                                number(w["kernel.A_imag"][h][n]));
                const auto [a, b] = discrete_pole(rule, A, std::exp(number(w["kernel.log_dt"][h])));
                auto& s = state[static_cast<std::size_t>(n)];
                s = a * s + b * kv;
                const Complex C(number(w["kernel.C"][0][h][n][0]),
                                number(w["kernel.C"][0][h][n][1]));
                y += 2 * (C * s).real();
              }
              expected[0][t][h][p] += q * y;
            }
          }
      expect_close(c.mixer->mix(c.x, c.params).detach(), expected, 1e-12, "h3, product");
      expect_close(dense_apply(c.mixer->materialize(c.params, L), c.x).detach(), expected, 1e-12,
                   "h3, matrix");
    }
}

TEST(H3, LongSequencesEqualTheMatrixWithTheirGradients) {
  auto c = random_case("h3", {.B = 1, .L = 300, .heads = {2, 3}}, torch::kFloat64, 41);
  const auto inputs = test::inputs_with_gradients(c);
  const auto fast = c.mixer->mix(c.x, c.params);
  const auto dense = dense_apply(c.mixer->materialize(c.params, 300), c.x);
  expect_close(fast.detach(), dense.detach(), 1e-12, "h3");
  const auto dy = torch::randn_like(fast);
  const auto a = torch::autograd::grad({fast}, inputs, {dy}),
             b = torch::autograd::grad({dense}, inputs, {dy});
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect_close(a[i], b[i], 1e-11, "h3, gradient " + std::to_string(i));
}

}  // namespace
}  // namespace hydramix
