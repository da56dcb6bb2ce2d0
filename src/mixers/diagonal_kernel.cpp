// SPDX-License-Identifier: Apache-2.0
#include "mixers/diagonal_kernel.h"

#include <cmath>

#include "hydramix/error.h"
#include "ops/exponential_kernel.h"

namespace hydramix {

torch::Tensor initial_log_dt(int64_t H, const MixerOptions& o) {
  HYDRAMIX_CHECK_USAGE(o.dt_min <= o.dt_max, "mixer: dt_min = ", o.dt_min,
                       " is above dt_max = ", o.dt_max, ".");
  return torch::rand({H}) * std::log(o.dt_max / o.dt_min) + std::log(o.dt_min);
}

DiagonalKernel::DiagonalKernel(int64_t H, int64_t directions, const MixerOptions& options)
    : real_(options.spectrum == "real"), discretisation_(options.discretisation) {
  const int64_t poles = real_ ? options.d_state : (options.d_state + 1) / 2;
  const auto n = torch::arange(poles, torch::kFloat32);
  const auto every_head = [&](const torch::Tensor& t) { return t.repeat({H, 1}); };
  log_dt = register_parameter("log_dt", initial_log_dt(H, options));
  log_A_real = register_parameter(
      "log_A_real", every_head(real_ ? torch::log(n + 1) : torch::full({poles}, std::log(0.5))));
  if (real_) {
    C = register_parameter("C", torch::randn({directions, H, poles}));
    return;
  }
  const auto N = static_cast<double>(2 * poles);
  A_imag = register_parameter(
      "A_imag",
      every_head(options.spectrum == "linear" ? M_PI * n : N / M_PI * (N / (2 * n + 1) - 1)));
  C = register_parameter("C", torch::randn({directions, H, poles, 2}) * std::sqrt(0.5));
}

torch::Tensor DiagonalKernel::operator()(int64_t L, torch::ScalarType dtype,
                                         const WideWeight& wide) const {
  const auto real = [](const torch::Tensor& t) { return torch::complex(t, torch::zeros_like(t)); };
  const auto decay = -wide(log_A_real).exp();
  const auto A = real_ ? real(decay) : torch::complex(decay, wide(A_imag));
  const auto dt = wide(log_dt).exp().unsqueeze(1);
  const auto z = dt * A;  // (H, poles)
  const bool bilinear = discretisation_ == "bilinear";
  const auto a = bilinear ? torch::log((2 + z) / (2 - z)) : z;
  const auto b = bilinear                   ? 2 * dt / (2 - z)
                 : discretisation_ == "zoh" ? (torch::exp(z) - 1) / A
                                            : real(dt);
  const auto c = real_ ? real(wide(C)) : 2 * torch::view_as_complex(wide(C).contiguous());
  std::vector<torch::Tensor> kernels;
  for (int64_t d = 0; d < c.size(0); ++d)
    kernels.push_back(exponential_kernel(c[d] * b, a, L, dtype));
  return torch::stack(kernels);
}

}  // namespace hydramix
