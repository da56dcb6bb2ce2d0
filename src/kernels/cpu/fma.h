// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace hydramix::kernels {

// Fused multiply-adds on registers, in enough independent chains to keep every unit of a core busy:
// the upper bound of the rate of any product. Returns the number of floating-point operations.
double fused_multiply_adds(int64_t rounds);

// Likewise the exponentials of the selective scan (decay-inl.h), with their arguments: a product
// each. Returns the number of exponentials.
double exponentials(int64_t rounds);

}  // namespace hydramix::kernels
