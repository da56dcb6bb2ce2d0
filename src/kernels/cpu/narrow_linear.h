// SPDX-License-Identifier: Apache-2.0
// x W^T + bias for few outputs: a product in which a BLAS spends its time on packing x.
#pragma once

#include "kernels/cpu/storage.h"

namespace hydramix::kernels {

constexpr int64_t kNarrowRows = 48;  // of a task
constexpr int64_t kNarrowPad = 16;   // outputs are computed in whole vectors

template <typename S, typename W = Arithmetic<S>>
struct NarrowProduct {
  int64_t rows, C, outputs;
  StridedRows<const S> x;     // (rows, C)
  const W* weight = nullptr;  // (C, padded outputs), zero after the outputs, 64-byte aligned
  const W* bias = nullptr;    // (outputs)
  W* y = nullptr;             // (rows, outputs)
};

// Task i takes the rows [i kNarrowRows, (i + 1) kNarrowRows).
constexpr int64_t narrow_tasks(int64_t rows) { return (rows + kNarrowRows - 1) / kNarrowRows; }
template <typename S>
void narrow_linear(const NarrowProduct<S>& p, int64_t task);

}  // namespace hydramix::kernels
