// SPDX-License-Identifier: Apache-2.0
// The linear recurrent unit: one complex recurrence per head, with learned weights (I^2 = -1),
//
//   h_t = lambda h_{t-1} + gamma x_t,   lambda = exp(-exp(nu_log) + I exp(theta_log))
//
// and two real matrices, for the real and the imaginary part of h (i >= j):
//
//   M0_ij = gamma |lambda|^{i-j} cos(theta (i - j))
//   M1_ij = gamma |lambda|^{i-j} sin(theta (i - j)),   theta = exp(theta_log)
//
// Orvieto et al. 2023, "Resurrecting recurrent neural networks for long sequences". There
// h_t = Lambda h_{t-1} + gamma B u_t and y_t = Re(C h_t) with complex B and C. B is the block's
// input projection, C its output projection: with two channels per head, x = (Re B u, Im B u), the
// four outputs are Re and Im of both, and Re(C h) is a linear function of them. That holds in style
// plain; style mamba has its convolution, SiLU, norm and gate between the projections and h. The
// skip D u is left to the residual around the block.
//
// gamma = exp(gamma_log) starts as sqrt(1 - |lambda|^2).
//
// Cost O(L) by the recurrence where it has a kernel; in float64 on a GPU the matrices, O(L^2).
#include <cmath>

#include "hydramix/registry.h"
#include "ops/arithmetic.h"
#include "ops/complex_scan.h"

namespace hydramix {
namespace {

class LinearRecurrentUnit : public Mixer {
 public:
  LinearRecurrentUnit(Heads heads, const MixerOptions& options) : Mixer(heads, options) {
    // |lambda|^2 and the phase are uniform in [0, 1) and [0, 2 pi), as published. The ends, where
    // the logarithms are infinite, are left out.
    const auto uniform = [&] { return torch::rand({heads.H}).clamp(1e-6, 1 - 1e-6); };
    const auto square = uniform();
    nu_log = register_parameter("nu_log", torch::log(-0.5 * torch::log(square)));
    theta_log = register_parameter("theta_log", torch::log(2 * M_PI * uniform()));
    gamma_log = register_parameter("gamma_log", 0.5 * torch::log1p(-square));
  }

  int64_t branches() const override { return 2; }

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    const auto position = torch::arange(rows.L, rows.options.dtype(torch::kFloat64));
    const auto distance = (position.unsqueeze(1) - position).clamp_min(0);  // (L, L)
    const auto per_head = [](const torch::Tensor& t) { return t.view({-1, 1, 1}); };
    const auto size = torch::exp(per_head(log_gamma(rows)) + per_head(log_decay(rows)) * distance);
    const auto angle = per_head(theta(rows)) * distance;  // (H, L, L)
    return torch::cat({size * angle.cos(), size * angle.sin()})
        .tril()
        .to(rows.options)
        .unsqueeze(0);
  }

  torch::Tensor packed_product(const torch::Tensor& x, const torch::Tensor&,
                               const Sequences& sequences) const override {
    const Rows rows = arithmetic_of(x.unsqueeze(0));
    const auto of_channels = [&](const torch::Tensor& t) {
      return t.unsqueeze(1).expand({heads_.H, heads_.P}).flatten();
    };
    const auto size = log_decay(rows).exp(), angle = theta(rows);
    const auto gamma = log_gamma(rows).exp().to(rows.options).unsqueeze(1);
    const auto input =
        (x.to(rows.options) * gamma).flatten(1).to(kernel_input_type(info().name, "x", x));
    return complex_scan(input, of_channels(size * angle.cos()), of_channels(size * angle.sin()),
                        sequences)
        .view({x.size(0), 2 * heads_.H, heads_.P})
        .to(x.scalar_type());
  }

 private:
  // (H) each, in float64: in float32 an angle of 10^5 has an error of 1e-2.
  torch::Tensor in_float64(const torch::Tensor& w, const Rows& rows) const {
    return weight(w, rows).to(torch::kFloat64);
  }
  torch::Tensor log_decay(const Rows& rows) const { return -in_float64(nu_log, rows).exp(); }
  torch::Tensor theta(const Rows& rows) const { return in_float64(theta_log, rows).exp(); }
  torch::Tensor log_gamma(const Rows& rows) const { return in_float64(gamma_log, rows); }

  torch::Tensor nu_log, theta_log, gamma_log;  // (H) each
};

HYDRAMIX_REGISTER_MIXER(
    "lru", LinearRecurrentUnit, .matrix_class = "Semiseparable, Toeplitz, two",
    .formula = "gamma lambda^{i-j} for i >= j, real and imaginary part", .cost = "O(L)",
    .source = "LRU, Orvieto et al. 2023", .causal = true, .packed = true,
    .choose = "To compare with plain linear recurrences: the fewest weights of all state spaces.",
    .published = "style=plain expand=2 headdim=2");

}  // namespace
}  // namespace hydramix
