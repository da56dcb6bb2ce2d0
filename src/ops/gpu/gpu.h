// SPDX-License-Identifier: Apache-2.0
// Operations on NVIDIA GPUs by our own kernels (kernels/cuda): LibTorch's side of them. What they
// compute is said where the operation is declared for every device; here is only what differs.
//
// Callers write
//
//   if constexpr (gpu::kBuilt)
//     if (gpu::takes(x)) return gpu::...;
//
// so that a library without the kernels needs none of this.
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix::gpu {

#ifdef HYDRAMIX_GPU
constexpr bool kBuilt = true;
#else
constexpr bool kBuilt = false;
#endif

// float32 or bfloat16 on a GPU. float64 is left to LibTorch.
inline bool takes(const torch::Tensor& t) {
  return t.is_cuda() && (t.scalar_type() == torch::kFloat32 || t.scalar_type() == torch::kBFloat16);
}

}  // namespace hydramix::gpu
