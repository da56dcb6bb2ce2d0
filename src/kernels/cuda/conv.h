// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution, bias and SiLU in one pass over packed sequences, on NVIDIA GPUs
// (ops/depthwise_conv.h has the formula). Inputs and outputs are columns of wider row-major
// matrices, and are read and written in place.
//
// Launchers check only the shape. They allocate nothing and do not synchronise.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include "kernels/params.h"

namespace hydramix::cuda {

// S is float or __nv_bfloat16. n and C are less than kMostTokens (limits.h). Widths K up to 8 have
// kernels of their own, which are fast. A thread loads 16 bytes at once if pointers and rows are
// aligned to 16 bytes, and C and silu are multiples of as many values.
using kernels::ConvShape;
template <typename S>
using ConvForward = kernels::ConvForward<S, float>;
template <typename S>
using ConvBackward = kernels::ConvBackward<S, float>;

// bounds (n): the first token of a token's sequence and one past its last.
template <typename S>
cudaError_t conv_forward(const ConvForward<S>& p, const int2* bounds, cudaStream_t stream);

// Floats of the workspace: sums over parts of the tokens, and for K > 8 also the gradient before
// SiLU, (n, C).
int64_t conv_backward_workspace(const ConvShape& shape);

// Recomputes the input of SiLU from x. The order of sums over tokens depends on the shape alone.
template <typename S>
cudaError_t conv_backward(const ConvBackward<S>& p, const int2* bounds, cudaStream_t stream);

}  // namespace hydramix::cuda
