// SPDX-License-Identifier: Apache-2.0
// Everything between the two projections of a Hydra block as one operation:
//
//   w = [ z | x b c b' c' | dt dt' ]      the output of in_proj, never copied
//   x b c b' c'  <- silu(convolution)
//   y = scan(x, ...) with delta = D + fc_D x,   out = rms_norm(y) * silu(z)
//
// Its gradient is one tensor of the shape of w; each part fills its columns in place. On a GPU the
// backward pass recomputes the convolved columns: that is cheap, and saving them would take most of
// the memory.
#pragma once

#include "hydramix/rounded_copy.h"
#include "ops/depthwise_conv.h"
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

// Whether the operation supports this w (n, columns): float32 and float64 on the CPU, bfloat16 on a
// GPU for sizes that its tensor-core kernels support.
bool hydra_inner_supports(const torch::Tensor& w, const HydraShape& shape);

// w (n, columns) -> (n, H P). Weights are float32, or float64 if w is. The result equals that of
// the separate operations; on the CPU it has the same bits.
torch::Tensor hydra_inner(const torch::Tensor& w, const HydraWeights& weights,
                          const HydraShape& shape, const Sequences& sequences);

// The parts that differ between devices:
struct HydraDelta {
  torch::Tensor delta;     // (n, H)
  torch::Tensor diagonal;  // (H), still to be added to delta; undefined if delta includes it
};
struct HydraDeltaGradients {
  torch::Tensor fc_D, D;
};
namespace on_cpu {
// Fills `convolved` (n, C), and returns D + fc_D x for x, its first H P columns.
HydraDelta hydra_convolve(const ConvCall& call, const HydraWeights& weights,
                          const torch::Tensor& convolved);
// Adds the gradient that flows through delta to dx. ddiagonal is the scan's gradient of the
// diagonal, undefined if there was none.
HydraDeltaGradients hydra_delta_backward(const torch::Tensor& x, const HydraWeights& weights,
                                         const torch::Tensor& ddelta,
                                         const torch::Tensor& ddiagonal, const torch::Tensor& dx);
constexpr bool kKeepsConvolved = true;
}  // namespace on_cpu
namespace on_cuda {
HydraDelta hydra_convolve(const ConvCall& call, const HydraWeights& weights,
                          const torch::Tensor& convolved);
HydraDeltaGradients hydra_delta_backward(const torch::Tensor& x, const HydraWeights& weights,
                                         const torch::Tensor& ddelta,
                                         const torch::Tensor& ddiagonal, const torch::Tensor& dx);
// Whether the tensor-core kernels support these sizes, including their gradients if grad mode is
// on.
bool hydra_inner_fits(const torch::Tensor& w, const HydraShape& shape);
constexpr bool kKeepsConvolved = false;
}  // namespace on_cuda

}  // namespace hydramix
