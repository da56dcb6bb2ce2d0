// SPDX-License-Identifier: Apache-2.0
// Norms over the channels of a token on an NVIDIA GPU: the gated RMS norm of the block, and the sum
// of a residual and its LayerNorm. ops/norm.h has the formulas.
//
// S and R are float or __nv_bfloat16; arithmetic and weights are float. An output may take the
// place of an input of the same type and stride. Backward passes compute the statistics of a row
// anew, and add the gradients of the weights in an order that depends on the sizes alone.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace hydramix::cuda {

// Rows `stride` elements apart, each with its values side by side. No data: not given, not wanted.
template <typename T>
struct StridedRows {
  T* data = nullptr;
  int64_t stride = 0;
};

// out = y / sqrt(mean(y^2) + eps) * weight * silu(z). Channel c is gated by z[c % Z].
template <typename S>
struct GatedNormForward {
  int64_t rows, C, Z;  // Z divides C
  float eps;
  StridedRows<const S> y;  // (rows, C)
  StridedRows<const S> z;  // (rows, Z)
  const float* weight;     // (C)
  StridedRows<S> out;      // (rows, C)
};

template <typename S>
struct GatedNormBackward {
  int64_t rows, C, Z;
  float eps;
  StridedRows<const S> y, z;
  const float* weight;
  StridedRows<const S> dout;  // (rows, C)
  StridedRows<S> dy;          // (rows, C)
  StridedRows<S> dz;          // (rows, Z)
  float* dweight;             // (C), overwritten
  float* workspace;           // gated_norm_workspace(C) floats
};

// sum = a + b, out = (sum - mean) / sqrt(variance + eps) * weight + bias. Where the sum is kept,
// what is normed is the sum as it is kept. Each of the three outputs may be missing.
template <typename R, typename S>
struct LayerNormForward {
  int64_t rows, C;
  float eps;
  StridedRows<const R> a;  // (rows, C), as are all that follow
  StridedRows<const S> b;  // or none: the sum is a
  const float *weight, *bias;
  StridedRows<R> sum;
  StridedRows<S> out;
  StridedRows<R> out_residual;  // the same as out
};

// The gradient of the sum, for a as for b. It comes from out, from out_residual and from sum, each
// of which may be missing.
template <typename R, typename S>
struct LayerNormBackward {
  int64_t rows, C;
  float eps;
  StridedRows<const R> a;  // a and b of the forward pass, or the sum it kept and no b
  StridedRows<const S> b;
  const float* weight;
  StridedRows<const S> dout;
  StridedRows<const R> dout_residual;
  StridedRows<const R> dsum;
  StridedRows<R> da;       // or none
  StridedRows<S> db;       // or none
  float *dweight, *dbias;  // (C), overwritten
  float* workspace;        // layer_norm_workspace(C) floats
};

// Floats. Aligned to 16 bytes a workspace is fastest.
int64_t gated_norm_workspace(int64_t C);
int64_t layer_norm_workspace(int64_t C);

template <typename S>
cudaError_t gated_norm_forward(const GatedNormForward<S>& p, cudaStream_t stream);
template <typename S>
cudaError_t gated_norm_backward(const GatedNormBackward<S>& p, cudaStream_t stream);

// (R, S): (float, float), (bfloat16, bfloat16) or (float, bfloat16).
template <typename R, typename S>
cudaError_t layer_norm_forward(const LayerNormForward<R, S>& p, cudaStream_t stream);
template <typename R, typename S>
cudaError_t layer_norm_backward(const LayerNormBackward<R, S>& p, cudaStream_t stream);

}  // namespace hydramix::cuda
