// SPDX-License-Identifier: Apache-2.0
// The operations, forward and backward, for tensors that gpu::takes(). Shapes are checked by those
// who call. The same call gives the same bits.
#pragma once

#include "ops/gpu/gpu.h"
#include "ops/linear_cross_entropy.h"
#include "ops/scan.h"

namespace hydramix::gpu {

// x (n, C), weight (C, 1, K), bias (C) or undefined; ops/depthwise_conv.h.
torch::Tensor depthwise_conv_silu(const torch::Tensor& x, const torch::Tensor& weight,
                                  const torch::Tensor& bias, int64_t centre, int64_t silu,
                                  const std::vector<int64_t>& offsets);

// (..., C); b may be undefined: LayerNorm(a). ops/norm.h.
torch::Tensor gated_rms_norm(const torch::Tensor& y, const torch::Tensor& z,
                             const torch::Tensor& weight, double eps);
torch::Tensor add_layer_norm(const torch::Tensor& a, const torch::Tensor& b,
                             const torch::Tensor& weight, const torch::Tensor& bias, double eps);

// As ops/scan.h. bfloat16 on tensor cores, where the sizes allow it; else in float32 on ordinary
// ones.
torch::Tensor packed_scan(const torch::Tensor& x, const ScanDirection& forward,
                          const ScanDirection& backward, const torch::Tensor& dt_bias,
                          const torch::Tensor& A, const torch::Tensor& delta,
                          const std::vector<int64_t>& offsets, const ScanSettings& settings);

// x (..., in) bfloat16, weight (out, in) float32 or bfloat16, bias (out) or undefined -> (..., out)
// bfloat16. Gradients of weights are summed and left in float32.
torch::Tensor project(const torch::Tensor& x, const torch::Tensor& weight,
                      const torch::Tensor& bias);

// The products in bfloat16; ops/linear_cross_entropy.h. A target below 0 does not count.
CrossEntropy cross_entropy_in_chunks(const torch::Tensor& x, const torch::Tensor& weight,
                                     const torch::Tensor& bias, const torch::Tensor& targets,
                                     int64_t chunk, CrossEntropyGradients* gradients);

// table (V, C) float32, ids (...) int64 -> (..., C) float32.
torch::Tensor embedding(const torch::Tensor& table, const torch::Tensor& ids);

}  // namespace hydramix::gpu
