// SPDX-License-Identifier: Apache-2.0
// Tensors as parameters of the CPU kernels.
#pragma once

#include <type_traits>

#include "ops/kernel_tensors.h"

namespace hydramix::on_cpu {

// The rows t[0], t[1], ...; none if t is undefined.
template <typename S>
kernels::StridedRows<S> rows_of(const torch::Tensor& t) {
  if (!t.defined()) return {};
  return {storage<std::remove_const_t<S>>(t), t.stride(0)};
}

}  // namespace hydramix::on_cpu
