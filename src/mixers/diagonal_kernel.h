// SPDX-License-Identifier: Apache-2.0
// The convolution kernel of a diagonal state-space model x' = A x + B u, y = Re C x with B = 1:
//
//   k_l = Re sum_n c_n b_n exp(l a_n)
//
//   zoh       a_n = dt A_n,                                b_n = (exp(dt A_n) - 1) / A_n
//   bilinear  a_n = log((1 + dt A_n/2) / (1 - dt A_n/2)),  b_n = dt / (1 - dt A_n/2)
//   euler     a_n = dt A_n,                                b_n = dt
//
// A state of size N has N real poles, or N/2 pairs of conjugate complex ones, of which one is
// stored, and whose c_n counts twice. An odd N is rounded up to whole pairs. The poles start as
//
//   linear    A_n = -1/2 + i pi n
//   inverse   A_n = -1/2 + i N/pi (N / (2 n + 1) - 1)
//   real      A_n = -(n + 1)
//
// Gu, Gupta, Goel & Re 2022, On the Parameterization and Initialization of Diagonal State Space
// Models. O(N L) for a kernel of length L.
#pragma once

#include <functional>

#include "hydramix/mixer.h"

namespace hydramix {

// Converts a weight to float64.
using WideWeight = std::function<torch::Tensor(const torch::Tensor&)>;

class DiagonalKernel : public torch::nn::Module {
 public:
  // Kernels of H heads. `directions` of them share dt and A and have a c each.
  DiagonalKernel(int64_t H, int64_t directions, const MixerOptions& options);

  // (directions, H, L) of the given dtype.
  torch::Tensor operator()(int64_t L, torch::ScalarType dtype, const WideWeight& wide) const;

 private:
  bool real_;
  std::string discretisation_;
  torch::Tensor log_dt;              // (H)
  torch::Tensor log_A_real, A_imag;  // (H, poles); A_imag is undefined for a real spectrum
  torch::Tensor C;                   // (directions, H, poles, 2), without the 2 if real
};

// log dt for H heads, uniform between the logarithms of dt_min and dt_max.
torch::Tensor initial_log_dt(int64_t H, const MixerOptions& options);

}  // namespace hydramix
