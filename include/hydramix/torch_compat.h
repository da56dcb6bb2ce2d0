// SPDX-License-Identifier: Apache-2.0
// Includes LibTorch, and is the only file that depends on its version. All other code is written
// once for LibTorch 1.13 (Debian 12) to 2.x.
//
// It includes the parts of LibTorch that HydraMix uses. <torch/torch.h> also holds data loaders,
// optimizers, the JIT and every layer; reading it costs each file two seconds more, even
// precompiled.
#pragma once

// clang-format off
#include <torch/types.h>  // first: some of the others rely on it
// clang-format on
#include <c10/core/CPUAllocator.h>
#include <torch/autograd.h>
#include <torch/cuda.h>
#include <torch/fft.h>
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>
#include <torch/utils.h>
#include <torch/version.h>

static_assert(TORCH_VERSION_MAJOR > 1 || TORCH_VERSION_MINOR >= 13,
              "HydraMix needs LibTorch 1.13 or later");

namespace hydramix {

// a (m, k), b (k, n) of bfloat16 on a GPU -> (m, n) float32. Before LibTorch 2.8 the sums are
// rounded to bfloat16 first.
inline torch::Tensor mm_to_float32(const torch::Tensor& a, const torch::Tensor& b) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 8)
  return at::mm(a, b, torch::kFloat32);
#else
  return at::mm(a, b).to(torch::kFloat32);
#endif
}

// Softmax attention by LibTorch's kernels, which do not build the matrix on a GPU. Needs LibTorch
// 2.1, whose kernels take a scale. q, k, v (S, H, L, P); mask, broadcast to (S, H, L, L), true
// where a key counts, or undefined. If `causal`, query i sees the keys up to i and mask is
// undefined.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
constexpr bool kHasFusedAttention = true;
inline torch::Tensor fused_attention(const torch::Tensor& q, const torch::Tensor& k,
                                     const torch::Tensor& v, const torch::Tensor& mask, bool causal,
                                     double scale) {
  if (!mask.defined()) return at::scaled_dot_product_attention(q, k, v, {}, 0.0, causal, scale);
  return at::scaled_dot_product_attention(q, k, v, mask, 0.0, false, scale);
}
#else
constexpr bool kHasFusedAttention = false;
inline torch::Tensor fused_attention(const torch::Tensor&, const torch::Tensor&,
                                     const torch::Tensor&, const torch::Tensor&, bool, double) {
  return {};
}
#endif

// Memory of tensors on the CPU. Since LibTorch 2.3 `allocate` is not const and copies are made by
// the allocator.
class CpuAllocator : public c10::Allocator {
 public:
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
  c10::DataPtr allocate(std::size_t bytes) final { return reserve(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const final {
    default_copy_data(to, from, bytes);
  }
#else
  c10::DataPtr allocate(std::size_t bytes) const final { return reserve(bytes); }
#endif

 private:
  virtual c10::DataPtr reserve(std::size_t bytes) const = 0;
};

// The node that adds gradients to a leaf. Its shared pointers are of another class in LibTorch 1.13
// than in the newest versions.
using GradAccumulator =
    decltype(torch::autograd::impl::grad_accumulator(std::declval<const torch::Tensor&>()));

template <class Weak>
void call_with_weak(void (*set)(const torch::Tensor&, Weak), const torch::Tensor& leaf,
                    const GradAccumulator& accumulator) {
  set(leaf, Weak(accumulator));
}

// Gradients of the leaf go to this accumulator as long as somebody keeps it.
inline void set_grad_accumulator(const torch::Tensor& leaf, const GradAccumulator& accumulator) {
  call_with_weak(&torch::autograd::impl::set_grad_accumulator, leaf, accumulator);
}

}  // namespace hydramix
