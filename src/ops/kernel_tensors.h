// SPDX-License-Identifier: Apache-2.0
// Tensors as arguments and results of the CPU kernels.
#pragma once

#include <memory>
#include <vector>

#include "hydramix/torch_compat.h"
#include "kernels/cpu/storage.h"

namespace hydramix {

template <typename S>
S* storage(const torch::Tensor& t) {
  return t.data_ptr<S>();
}
template <>
inline kernels::BFloat16* storage<kernels::BFloat16>(const torch::Tensor& t) {
  return reinterpret_cast<kernels::BFloat16*>(t.data_ptr<at::BFloat16>());
}

// Calls f(S{}) with the element type S of t: float32, float64 or bfloat16.
template <class F>
auto dispatch_storage(const torch::Tensor& t, F&& f) {
  if (t.scalar_type() == torch::kFloat64) return f(double{});
  if (t.scalar_type() == torch::kBFloat16) return f(kernels::BFloat16{});
  return f(float{});
}

// t (n, ...) with contiguous rows at any row stride; t itself if its rows are contiguous.
torch::Tensor packed_rows(const torch::Tensor& t);

// (n, C) -> (C), summed in float64, in an order that does not depend on the number of threads.
torch::Tensor ordered_sum(const torch::Tensor& t);

// Throws, naming `who`, unless offsets are 0 = offsets[0] <= offsets[1] <= ... = n.
void check_offsets(const char* who, const std::vector<int64_t>& offsets, int64_t n);

// Switches autocast off: a backward pass computes with the types of its forward pass, also if
// PyTorch's backward() is called under torch.autocast.
class NoAutocast {
 private:
  c10::impl::ExcludeDispatchKeyGuard guard_{c10::autocast_dispatch_keyset};
};

// The scope of a backward pass that a kernel computes, which builds no graph: throws, naming `who`,
// if one was requested (create_graph).
class BackwardPass : NoAutocast {
 public:
  explicit BackwardPass(const char* who);
};

// Whether autograd must record an operation on these inputs.
bool wants_gradient(const std::vector<torch::Tensor>& inputs);

// A plain struct that an autograd function keeps from its forward to its backward pass.
template <class T>
struct Held : torch::CustomClassHolder {
  explicit Held(T v) : value(std::move(v)) {}
  T value;
};
template <class T>
c10::IValue hold(T value) {
  return c10::IValue::make_capsule(c10::make_intrusive<Held<T>>(std::move(value)));
}
template <class T>
const T& held(const c10::IValue& capsule) {
  return static_cast<const Held<T>&>(*capsule.toCapsule()).value;
}

}  // namespace hydramix
