// SPDX-License-Identifier: Apache-2.0
// Tensors as parameters of GPU kernels. Included only by files that are compiled with the GPU
// kernels.
#pragma once

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_bf16.h>

#include "hydramix/error.h"
#include "hydramix/torch_compat.h"
#include "kernels/params.h"

namespace hydramix::on_cuda {

inline cudaStream_t stream() { return at::cuda::getCurrentCUDAStream().stream(); }

inline void check(cudaError_t error, const char* who) {
  HYDRAMIX_CHECK(error == cudaSuccess, who,
                 ": the GPU refused a kernel: ", cudaGetErrorString(error), " (",
                 cudaGetErrorName(error),
                 "). Is there memory left, and is the GPU of the Ampere generation or later?");
}

template <typename S>
S* data(const torch::Tensor& t) {
  return static_cast<S*>(t.data_ptr());
}

// The rows t[0], t[1], ...; none if t is undefined.
template <typename S>
kernels::StridedRows<S> rows_of(const torch::Tensor& t) {
  if (!t.defined()) return {};
  return {static_cast<S*>(t.data_ptr()), t.stride(0)};
}

// f(S{}), S the type that t is stored in.
template <class F>
auto dispatch(const torch::Tensor& t, F&& f) {
  if (t.scalar_type() == torch::kBFloat16) return f(__nv_bfloat16{});
  return f(float{});
}

// Uninitialised scratch memory on the device of t.
inline torch::Tensor scratch(std::size_t bytes, const torch::Tensor& t) {
  return torch::empty({static_cast<int64_t>(bytes)},
                      torch::TensorOptions().dtype(torch::kUInt8).device(t.device()));
}

// t (n, ...) with contiguous rows that are aligned to 16 bytes: t itself if possible, or a copy.
inline torch::Tensor aligned_rows(const torch::Tensor& t) {
  int64_t expected = 1;
  bool fits = reinterpret_cast<uintptr_t>(t.data_ptr()) % 16 == 0 &&
              t.stride(0) * static_cast<int64_t>(t.element_size()) % 16 == 0;
  for (int64_t d = t.dim() - 1; d > 0 && fits; expected *= t.size(d--))
    fits = t.size(d) == 1 || t.stride(d) == expected;
  return fits ? t : t.clone(torch::MemoryFormat::Contiguous);
}

}  // namespace hydramix::on_cuda
