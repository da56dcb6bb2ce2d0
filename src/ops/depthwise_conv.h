// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution along the sequence, zero outside it, of any width K:
//
//   y[t, c] = bias[c] + sum_k weight[c, 0, k] w[t + k - centre, c]
//
// centre = K / 2 (integer division), so that an even width reaches one place further back than
// ahead; centre = K - 1 when causal. Always L places out for L in.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// w (S, L, C), weight (C, 1, K), bias (C) or undefined -> (S, L, C).
torch::Tensor depthwise_conv(const torch::Tensor& w, const torch::Tensor& weight,
                             const torch::Tensor& bias, bool causal);

}  // namespace hydramix
