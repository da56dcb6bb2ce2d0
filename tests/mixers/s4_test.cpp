// SPDX-License-Identifier: Apache-2.0
// S4 against its recurrence with a dense state matrix, x_t = Abar x_{t-1} + bbar u_t, y_t = c x_t:
// the matrix of HiPPO-LegS from its definition, and the one that arbitrary weights stand for.
#include <cmath>

#include "support/expect.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::CaseSizes;
using test::expect_close;
using test::random_case;
using torch::Tensor;

// Both of the conjugate pairs of a weight (..., N / 2, 2): (..., N) complex.
Tensor whole(const Tensor& weight) {
  const auto half = torch::view_as_complex(weight.contiguous());
  return torch::cat({half, half.conj()}, -1);
}

// The dense model of one head: y_t = sum(c x_t).
struct DenseModel {
  Tensor A, b, c;  // (N, N), (N), (N): real or complex
  double dt;

  Tensor identity() const { return torch::eye(A.size(0), A.options()); }
  Tensor step() const {
    return torch::linalg_solve(identity() - dt / 2 * A, identity() + dt / 2 * A);
  }
  // k_0 .. k_{L-1}, by the recurrence for an impulse.
  Tensor kernel(int64_t L) const {
    auto x = torch::linalg_solve(identity() - dt / 2 * A, dt * b);
    std::vector<Tensor> k;
    for (const auto Abar = step(); static_cast<int64_t>(k.size()) < L; x = torch::mv(Abar, x)) {
      const auto y = (c * x).sum();
      k.push_back(y.is_complex() ? torch::real(y) : y);
    }
    return torch::stack(k);
  }
};

// Head h from the weights, whose C is c (1 - Abar^n) for n = max_length.
DenseModel dense_model(const Mixer& mixer, int64_t h, int64_t direction, int64_t n) {
  const auto w = mixer.named_parameters();
  const auto frequency = w["kernel.A_imag"][h], decay = -w["kernel.log_A_real"][h].exp();
  const auto p = whole(w["kernel.P"][h]);
  DenseModel model;
  model.A = torch::diag(
                torch::cat({torch::complex(decay, frequency), torch::complex(decay, -frequency)})) -
            torch::outer(p, p.conj());
  model.b = whole(w["kernel.B"][h]);
  model.dt = std::exp(w["kernel.log_dt"][h].item<double>());
  const auto wrapped = model.identity() - torch::matrix_power(model.step(), n);
  model.c = torch::linalg_solve(wrapped.t(), whole(w["kernel.C"][direction][h]));
  return model;
}

TEST(S4, IsTheRecurrenceOfItsDenseStateMatrixAtAnyLength) {
  const torch::NoGradGuard no_grad;
  const int64_t n = 20;  // max_length
  for (const std::string name : {"s4", "s4_bidirectional"})
    for (const int64_t L : {1, 2, 19, 20, 21, 95}) {
      const CaseSizes sizes{
          .B = 1, .L = L, .heads = {2, 1}, .options = {.d_state = 6, .max_length = n}};
      const auto c = random_case(name, sizes, torch::kFloat64, 41);
      const auto M = c.mixer->materialize(c.params, L)[0];
      const auto D = c.mixer->named_parameters()["D"];
      for (int64_t h = 0; h < 2; ++h) {
        auto expected = D[h] * torch::eye(L, torch::kFloat64);
        const auto k = dense_model(*c.mixer, h, 0, n).kernel(L);
        for (int64_t j = 0; j < L; ++j)
          expected.select(1, j).narrow(0, j, L - j) += k.narrow(0, 0, L - j);
        if (name == "s4_bidirectional") {
          const auto ahead = dense_model(*c.mixer, h, 1, n).kernel(L);
          for (int64_t i = 0; i < L; ++i)
            expected[i].narrow(0, i + 1, L - i - 1) += ahead.narrow(0, 0, L - i - 1);
        }
        expect_close(M[h], expected, 1e-11, name + ", L = " + std::to_string(L));
      }
    }
}

// With c = b^T, b^T Abar^l bbar does not depend on the basis, so the initial weights can be
// compared with HiPPO-LegS itself (Gu et al. 2020): A_nk = -sqrt(2 n + 1) sqrt(2 k + 1) for n > k,
// -(n + 1) for n = k, 0 for n < k; b_n = sqrt(2 n + 1).
TEST(S4, StartsAsHippoLegS) {
  const torch::NoGradGuard no_grad;
  const int64_t N = 8, L = 64;
  torch::manual_seed(43);
  const auto s4 = make_mixer("s4", {1, 1}, {.d_state = N, .max_length = L, .skip = false});
  s4->to(torch::kFloat64);
  DenseModel legs{torch::zeros({N, N}, torch::kFloat64), torch::zeros({N}, torch::kFloat64), {}, 0};
  for (int64_t n = 0; n < N; ++n) {
    legs.b[n] = std::sqrt(2.0 * n + 1);
    for (int64_t k = 0; k < n; ++k) legs.A[n][k] = -std::sqrt((2.0 * n + 1) * (2.0 * k + 1));
    legs.A[n][n] = -(n + 1.0);
  }
  legs.c = legs.b;
  auto weights = s4->named_parameters();
  legs.dt = std::exp(weights["kernel.log_dt"].item<double>());
  auto model = dense_model(*s4, 0, 0, L);
  const auto wrapped = model.identity() - torch::matrix_power(model.step(), L);
  const auto C = torch::matmul(model.b.conj(), wrapped).narrow(0, 0, N / 2);
  weights["kernel.C"][0][0].copy_(torch::view_as_real(C.contiguous()));
  const auto M = s4->materialize(torch::zeros({1, L, 0}, torch::kFloat64), L);
  // The weights were rounded to float32.
  expect_close(M[0][0].select(1, 0), legs.kernel(L), 2e-6, "HiPPO-LegS");
}

// Otherwise a seed would start from another model on another CPU, whose LAPACK has another phase.
TEST(S4, StartsInTheBasisWherePAndBAreRealAndPositive) {
  const auto s4 = make_mixer("s4", {2, 1}, {.d_state = 8, .max_length = 16});
  auto weights = s4->named_parameters();
  for (const char* name : {"kernel.P", "kernel.B"}) {
    EXPECT_TRUE((weights[name].select(-1, 0) > 0).all().item<bool>()) << name;
    EXPECT_TRUE((weights[name].select(-1, 1) == 0).all().item<bool>()) << name;
  }
}

// C starts as c (1 - Abar^n) of a random c of unit variance, whatever n is.
TEST(S4, StartsWithOutputsOfUnitVariance) {
  const torch::NoGradGuard no_grad;
  for (const int64_t n : {1, 30, 500}) {
    torch::manual_seed(44);
    const auto s4 = make_mixer("s4", {60, 1}, {.d_state = 16, .max_length = n});
    s4->to(torch::kFloat64);
    double sum = 0;
    for (int64_t h = 0; h < 60; ++h)
      sum += dense_model(*s4, h, 0, n).c.abs().square().mean().item<double>();
    EXPECT_NEAR(sum / 60, 1.0, 0.15) << "n = " << n;
  }
}

}  // namespace
}  // namespace hydramix
