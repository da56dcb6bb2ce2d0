// SPDX-License-Identifier: Apache-2.0
// Storage types of the CPU kernels. bfloat16 is storage only: kernels widen it to float32 when they
// load it, and round to nearest even when they store it.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/params.h"

namespace hydramix::kernels {

struct BFloat16 {
  uint16_t bits;
};

inline float widen(float v) { return v; }
inline double widen(double v) { return v; }
inline float widen(BFloat16 v) { return std::bit_cast<float>(static_cast<uint32_t>(v.bits) << 16); }

inline void narrow(float v, float& to) { to = v; }
inline void narrow(double v, double& to) { to = v; }
inline void narrow(float v, BFloat16& to) {
  const auto bits = std::bit_cast<uint32_t>(v);
  // A NaN must not round up to an infinity.
  to.bits =
      v != v ? uint16_t{0x7fc0} : static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <>
struct ArithmeticOf<BFloat16> {
  using Type = float;
};

}  // namespace hydramix::kernels
