// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution, bias and SiLU in one pass over packed sequences, on NVIDIA GPUs
// (ops/depthwise_conv.h has the formula, kernels/cpu/conv.h the same for processors). Inputs and
// outputs are columns of wider row-major matrices, read and written where they stand.
//
// Launchers check nothing but the shape, allocate nothing and wait for nothing.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace hydramix::cuda {

struct ConvShape {
  int64_t n, C;       // tokens of all sequences end to end, channels; both < kMostTokens (limits.h)
  int64_t K, centre;  // 0 <= centre < K; widths up to 8 are quick
  int64_t silu;       // channels [0, silu) pass SiLU
};

// x, y (n, C), rows x_row and y_row apart, y apart from x; weight (C, K); bias (C) or null.
// bounds (n): the first token of a token's sequence and one past its last. S is float or
// __nv_bfloat16. 16 bytes a thread when pointers and rows are aligned to 16 bytes and C and silu
// are multiples of that many values.
template <typename S>
cudaError_t conv_forward(const ConvShape& shape, const int2* bounds, const S* x, int64_t x_row,
                         const float* weight, const float* bias, S* y, int64_t y_row,
                         cudaStream_t stream);

// Floats of the workspace of conv_backward: sums over parts of the tokens, and for K > 8 also the
// gradient before SiLU, (n, C).
int64_t conv_backward_workspace(const ConvShape& shape);

// dx (n, C), apart from x and dy; dweight (C, K); dbias (C) or null. What SiLU was given is
// computed again from x. Sums over tokens have an order fixed by the shape alone.
template <typename S>
cudaError_t conv_backward(const ConvShape& shape, const int2* bounds, const S* x, int64_t x_row,
                          const float* weight, const float* bias, const S* dy, int64_t dy_row,
                          S* dx, int64_t dx_row, float* dweight, float* dbias, float* workspace,
                          cudaStream_t stream);

}  // namespace hydramix::cuda
