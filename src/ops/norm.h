// SPDX-License-Identifier: Apache-2.0
// Norms over the channels of a token. The kernels save only their inputs for the backward pass and
// recompute the rest. float64 on a GPU uses LibTorch's operations.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

// y / sqrt(mean(y^2) + eps) * weight * silu(z): one norm over all channels, then the gate. y (...,
// C), z (..., Z), weight (C) -> (..., C). Z divides C; channel c is gated by z[c % Z].
torch::Tensor gated_rms_norm(const torch::Tensor& y, const torch::Tensor& z,
                             const torch::Tensor& weight, double eps);
torch::Tensor gated_rms_norm_ref(const torch::Tensor& y, const torch::Tensor& z,
                                 const torch::Tensor& weight, double eps);

// LayerNorm(a + b) over the last dimension; weight, bias (C).
torch::Tensor add_layer_norm(const torch::Tensor& a, const torch::Tensor& b,
                             const torch::Tensor& weight, const torch::Tensor& bias, double eps);
// LayerNorm(x)
torch::Tensor layer_norm(const torch::Tensor& x, const torch::Tensor& weight,
                         const torch::Tensor& bias, double eps);

// The same without checks and autograd. Rows of tensors may be any distance apart.
struct GatedNormCall {
  torch::Tensor y, z;    // (n, C), (n, Z)
  torch::Tensor weight;  // (C)
  double eps;
};
struct LayerNormCall {
  torch::Tensor a, b;          // (n, C); without b the sum is a
  torch::Tensor weight, bias;  // (C)
  double eps;
};
struct LayerNormGradients {
  torch::Tensor sum, weight, bias;  // sum (n, C): the gradient of both a and b
};

namespace on_cpu {
void gated_norm_forward(const GatedNormCall& call, const torch::Tensor& out);
// Fills dy and dz; returns the gradient of the weight.
torch::Tensor gated_norm_backward(const GatedNormCall& call, const torch::Tensor& dout,
                                  const torch::Tensor& dy, const torch::Tensor& dz);
void layer_norm_forward(const LayerNormCall& call, const torch::Tensor& out);
LayerNormGradients layer_norm_backward(const LayerNormCall& call, const torch::Tensor& dout);
}  // namespace on_cpu
namespace on_cuda {
void gated_norm_forward(const GatedNormCall& call, const torch::Tensor& out);
torch::Tensor gated_norm_backward(const GatedNormCall& call, const torch::Tensor& dout,
                                  const torch::Tensor& dy, const torch::Tensor& dz);
void layer_norm_forward(const LayerNormCall& call, const torch::Tensor& out);
LayerNormGradients layer_norm_backward(const LayerNormCall& call, const torch::Tensor& dout);
}  // namespace on_cuda

}  // namespace hydramix
