// SPDX-License-Identifier: Apache-2.0
// Norms over the channels of a token on an NVIDIA GPU: the gated RMS norm of the block, and the sum
// of a residual and its LayerNorm. ops/norm.h has the formulas.
//
// S and R are float or __nv_bfloat16; arithmetic and weights are float. An output may overwrite an
// input of the same type and stride. Backward passes recompute the statistics of a row. The order
// in which the gradients of the weights are summed depends on the sizes alone.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include "kernels/params.h"

namespace hydramix::cuda {

using kernels::StridedRows;
template <typename S>
using GatedNormForward = kernels::GatedNormForward<S, float, float>;
template <typename S>
using GatedNormBackward = kernels::GatedNormBackward<S, float, float>;
template <typename R, typename S>
using LayerNormForward = kernels::LayerNormForward<R, S, float, float>;
template <typename R, typename S>
using LayerNormBackward = kernels::LayerNormBackward<R, S, float, float>;

// Floats of the workspace of a backward pass, which is fastest if it is aligned to 16 bytes.
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
