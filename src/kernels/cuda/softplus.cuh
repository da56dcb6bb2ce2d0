// SPDX-License-Identifier: Apache-2.0
// dt = softplus(raw) within limits, and its derivative, in float or double. A NaN stays a NaN.
#pragma once

#include <math.h>

namespace hydramix::cuda {

template <typename T>
struct ClampedSoftplus {
  T dt;
  T slope;       // d dt / d raw; 0 where a limit applies
  bool clamped;  // a limit applies

  __device__ __forceinline__ ClampedSoftplus(T raw, T low, T high) {
    constexpr T kIdentity = sizeof(T) == 4 ? 20 : 40;  // above this softplus(raw) rounds to raw
    const T free = raw > kIdentity ? raw : log1p(exp(raw));
    const bool bad = free != free;
    dt = bad ? free : fmin(fmax(free, low), high);
    clamped = dt != free && !bad;
    slope = clamped ? T{0} : T{1} / (T{1} + exp(-raw));
  }
};

}  // namespace hydramix::cuda
