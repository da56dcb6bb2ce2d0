// SPDX-License-Identifier: Apache-2.0
// Chooses the implementation of an operation. An op checks its arguments, differentiates, and calls
// one of two implementations with the same symbols: on_cpu (ops/cpu) or on_cuda (ops/cuda). In a
// library without GPU kernels on_cuda is never called; its functions throw (ops/no_cuda.cpp).
#pragma once

#include "hydramix/torch_compat.h"

namespace hydramix {

enum class Backend {
  kCpu,
  kCuda,      // float32 or bfloat16 on a GPU for which the library has kernels
  kLibTorch,  // float64 on a GPU, and any other device: LibTorch's operations
};

// Whether the library was built with GPU kernels.
bool has_cuda_kernels();

inline Backend backend_of(const torch::Tensor& t) {
  if (t.is_cpu()) return Backend::kCpu;
  const bool stored = t.scalar_type() == torch::kFloat32 || t.scalar_type() == torch::kBFloat16;
  return t.is_cuda() && stored && has_cuda_kernels() ? Backend::kCuda : Backend::kLibTorch;
}

// Calls function(arguments) of the tensor's backend, which must not be kLibTorch.
#define HYDRAMIX_ON_BACKEND(tensor, function, ...)              \
  (::hydramix::backend_of(tensor) == ::hydramix::Backend::kCuda \
       ? ::hydramix::on_cuda::function(__VA_ARGS__)             \
       : ::hydramix::on_cpu::function(__VA_ARGS__))

}  // namespace hydramix
