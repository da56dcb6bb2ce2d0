// SPDX-License-Identifier: Apache-2.0
// The decay of a state over one step. Included once per instruction set (hence no pragma once).
#if defined(HYDRAMIX_KERNELS_CPU_DECAY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRAMIX_KERNELS_CPU_DECAY_INL_H_
#undef HYDRAMIX_KERNELS_CPU_DECAY_INL_H_
#else
#define HYDRAMIX_KERNELS_CPU_DECAY_INL_H_
#endif

#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 2^(step rate) for step rate <= 0. In float32 to 2e-7, zero below 2^-126, by eleven instructions
// of AVX-512; Highway's Exp() has twice as many. The product plus a large number has the nearest
// integer n in its last bits, where a shift makes it the exponent of 2^n. Two multiply-adds round
// the product nowhere else.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> Decay(D d, hn::Vec<D> step, hn::Vec<D> rate) {
  if constexpr (sizeof(T) == 8) {
    return hn::Exp(d, hn::Mul(hn::Mul(step, rate), hn::Set(d, 0.69314718055994530942)));
  } else {
    const hn::RebindToUnsigned<D> bits;
    constexpr float kLarge = 12582912.0f + 127.0f;  // 3 2^22, and the bias of exponents
    const auto large = hn::Set(d, kLarge);
    const auto shifted = hn::MulAdd(step, rate, large);
    const auto r = hn::MulSub(step, rate, hn::Sub(shifted, large));  // in [-1/2, 1/2]
    // 2^r = 1 + r q(r). q has the smallest possible error, 9.2e-8; near r = 0, where decays are
    // slow and errors add up over many steps, the error vanishes.
    auto p = hn::Set(d, 1.3264727e-3f);
    for (const float c : {9.6715127e-3f, 5.5507337e-2f, 2.4022242e-1f, 6.9314698e-1f, 1.0f})
      p = hn::MulAdd(p, r, hn::Set(d, c));
    const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits, shifted)));
    return hn::IfThenElseZero(hn::Ge(shifted, hn::Set(d, kLarge - 126.0f)), hn::Mul(p, power));
  }
}

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
