// SPDX-License-Identifier: Apache-2.0
// GSS against its equations: a recurrence in complex<double>, then the gate.
#include <cmath>
#include <complex>

#include "support/tensors.h"

namespace hydramix {
namespace {

TEST(Gss, IsItsRecurrenceTimesItsGate) {
  const torch::NoGradGuard no_grad;
  for (const int64_t L : {1, 2, 50}) {
    const test::CaseSizes sizes{.B = 2, .L = L, .heads = {3, 2}, .options = {.d_state = 5}};
    const auto c = test::random_case("gss", sizes, torch::kFloat64, 51);
    const auto w = c.mixer->named_parameters();
    const auto number = [](const torch::Tensor& t) { return t.item<double>(); };
    auto y = torch::zeros_like(c.x);
    for (int64_t s = 0; s < 2; ++s)
      for (int64_t h = 0; h < 3; ++h)
        for (int64_t p = 0; p < 2; ++p) {
          std::vector<std::complex<double>> state(5);
          for (int64_t t = 0; t < L; ++t) {
            const double u = number(c.x[s][t][h][p]), g = number(c.params[s][t][h]);
            std::complex<double> sum = 0;
            for (int64_t n = 0; n < 5; ++n) {
              const std::complex<double> a{-std::exp(number(w["A_real"][n])),
                                           std::exp(number(w["A_imag"][n]))};
              state[n] = std::exp(a) * state[n] + (std::exp(a) - 1.0) / a * u;
              sum +=
                  std::complex<double>(number(w["C"][h][n][0]), number(w["C"][h][n][1])) * state[n];
            }
            const double gelu = 0.5 * g * (1 + std::erf(g / std::sqrt(2.0)));
            y[s][t][h][p] = gelu * (sum.real() + number(w["D"][h]) * u);
          }
        }
    test::expect_close(c.mixer->mix(c.x, c.params), y, 1e-12, "L = " + std::to_string(L));
  }
}

}  // namespace
}  // namespace hydramix
