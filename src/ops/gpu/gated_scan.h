// SPDX-License-Identifier: Apache-2.0
// Everything between the two projections of a Hydra block in one operation on a GPU:
//
//   w = [ z | x b c b' c' | dt dt' ]      as in_proj gives it, never taken apart
//   x b c b' c'  <- silu(convolution)
//   y = scan(x, ...) with delta = D + fc_D x,   out = rms_norm(y) * silu(z)
//
// Its gradient is one tensor of the shape of w, whose columns the parts fill in place. The
// convolved columns are computed again in the backward pass: that is quicker than it looks, and
// they are the largest of what would have to be kept.
#pragma once

#include "ops/gpu/gpu.h"
#include "ops/scan.h"

namespace hydramix::gpu {

struct GatedScanWeights {
  torch::Tensor conv_weight, conv_bias;  // (C, 1, K), (C) or undefined
  torch::Tensor dt_bias, A, D;           // (H)
  torch::Tensor fc_D;                    // (H, H P)
  torch::Tensor norm;                    // (H P)
};

struct GatedScanShape {
  int64_t H, P, G, N;
  int64_t centre;  // of the convolution
  double eps;      // of the norm
  ScanSettings scan;
};

// Whether there is such an operation for these sizes and this w (n, width); with gradients, unless
// they are switched off now.
bool gated_scan_takes(const torch::Tensor& w, const GatedScanShape& shape);

// w (n, 2 H P + 4 G N + 2 H) bfloat16 -> (n, H P). Weights are float32.
torch::Tensor gated_scan(const torch::Tensor& w, const GatedScanWeights& weights,
                         const GatedScanShape& shape, const std::vector<int64_t>& offsets);

}  // namespace hydramix::gpu
