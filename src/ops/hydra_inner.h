// SPDX-License-Identifier: Apache-2.0
// Everything between the two projections of a Hydra block as one operation:
//
//   w = [ z | x b c b' c' | dt dt' ]      as in_proj gives it, never taken apart
//   x b c b' c'  <- silu(convolution)
//   y = scan(x, ...) with delta = D + fc_D x,   out = rms_norm(y) * silu(z)
//
// Its gradient is one tensor of the shape of w, whose columns the parts fill in place. On a GPU the
// convolved columns are computed again in the backward pass: that costs little, and they are the
// largest part of what would have to be kept.
#pragma once

#include "hydramix/rounded_copy.h"
#include "ops/scan.h"

namespace hydramix {

struct HydraWeights {
  torch::Tensor conv_weight, conv_bias;  // (C, 1, K), (C) or undefined
  torch::Tensor dt_bias, A, D;           // (H)
  torch::Tensor fc_D;                    // (H, H P)
  torch::Tensor norm;                    // (H P)
  RoundedCopy fc_D_copy;                 // of fc_D
};

struct HydraShape {
  int64_t H, P, G, N;
  int64_t centre;  // of the convolution
  double eps;      // of the norm
  ScanSettings scan;

  int64_t inner() const { return H * P; }
  int64_t convolved() const { return inner() + 4 * G * N; }
  int64_t columns() const { return inner() + convolved() + 2 * H; }
};

// Whether there is such an operation for this w (n, columns): float32 and float64 on the CPU,
// bfloat16 on a GPU for sizes that its tensor cores take.
bool hydra_inner_supports(const torch::Tensor& w, const HydraShape& shape);

// w (n, columns) -> (n, H P). Weights are float32, or float64 with w. Same results as the parts one
// by one; on the CPU the same bits.
torch::Tensor hydra_inner(const torch::Tensor& w, const HydraWeights& weights,
                          const HydraShape& shape, const Sequences& sequences);

// The two ways in which devices differ:
struct HydraDelta {
  torch::Tensor delta;     // (n, H)
  torch::Tensor diagonal;  // (H) still to be added to delta; undefined where it was
};
struct HydraDeltaGradients {
  torch::Tensor fc_D, D;
};
namespace on_cpu {
// D + fc_D x for x (n, H P).
HydraDelta hydra_delta(const torch::Tensor& x, const HydraWeights& weights);
// Adds what comes through delta to dx; ddiagonal is the scan's gradient of a diagonal, if it had
// one.
HydraDeltaGradients hydra_delta_backward(const torch::Tensor& x, const HydraWeights& weights,
                                         const torch::Tensor& ddelta,
                                         const torch::Tensor& ddiagonal, torch::Tensor dx);
constexpr bool kKeepsConvolved = true;
}  // namespace on_cpu
namespace on_cuda {
HydraDelta hydra_delta(const torch::Tensor& x, const HydraWeights& weights);
HydraDeltaGradients hydra_delta_backward(const torch::Tensor& x, const HydraWeights& weights,
                                         const torch::Tensor& ddelta,
                                         const torch::Tensor& ddiagonal, torch::Tensor dx);
// Whether the kernels for tensor cores take these sizes; with gradients, unless they are switched
// off now.
bool hydra_inner_fits(const torch::Tensor& w, const HydraShape& shape);
constexpr bool kKeepsConvolved = false;
}  // namespace on_cuda

}  // namespace hydramix
