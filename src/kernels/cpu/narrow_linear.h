// SPDX-License-Identifier: Apache-2.0
// x W^T + bias for a few outputs only: a product in which a BLAS spends its time on packing x.
#pragma once

#include <cstdint>

#include "kernels/cpu/storage.h"

namespace hydramix::kernels {

constexpr int64_t kNarrowRows = 48;  // of a task
constexpr int64_t kNarrowPad = 16;   // outputs are computed in whole vectors

// x (rows, C), x_row apart; weight (C, padded outputs), zero behind the outputs, 64-byte aligned;
// bias (outputs); y (rows, outputs).
template <typename S>
void narrow_linear(int64_t rows, int64_t C, int64_t outputs, const S* x, int64_t x_row,
                   const Arithmetic<S>* weight, const Arithmetic<S>* bias, Arithmetic<S>* y);

}  // namespace hydramix::kernels
