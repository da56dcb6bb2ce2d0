// SPDX-License-Identifier: Apache-2.0
// Rows of channels, vector by vector, in any storage and of any length, and functions of them.
// Included once per instruction set (hence no pragma once).
#if defined(HYDRAMIX_KERNELS_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRAMIX_KERNELS_CPU_ROWS_INL_H_
#undef HYDRAMIX_KERNELS_CPU_ROWS_INL_H_
#else
#define HYDRAMIX_KERNELS_CPU_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/cpu/storage.h"

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The first `count` values at `from`, at most as many as D has lanes; the other lanes are zero.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadN(D d, const T* from, int64_t count) {
  if (HWY_LIKELY(count >= static_cast<int64_t>(hn::Lanes(d)))) return hn::LoadU(d, from);
  HWY_ALIGN T values[hn::MaxLanes(D())] = {};
  for (int64_t i = 0; i < count; ++i) values[i] = from[i];
  return hn::Load(d, values);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadN(D d, const BFloat16* from, int64_t count) {
  const int64_t n = HWY_MIN(count, static_cast<int64_t>(hn::Lanes(d)));
  HWY_ALIGN float values[hn::MaxLanes(D())] = {};
  for (int64_t i = 0; i < n; ++i) values[i] = widen(from[i]);
  return hn::Load(d, values);
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void StoreN(hn::Vec<D> v, D d, T* to, int64_t count) {
  if (HWY_LIKELY(count >= static_cast<int64_t>(hn::Lanes(d)))) return hn::StoreU(v, d, to);
  HWY_ALIGN T values[hn::MaxLanes(D())];
  hn::Store(v, d, values);
  for (int64_t i = 0; i < count; ++i) to[i] = values[i];
}
template <class D>
HWY_INLINE void StoreN(hn::Vec<D> v, D d, BFloat16* to, int64_t count) {
  const int64_t n = HWY_MIN(count, static_cast<int64_t>(hn::Lanes(d)));
  HWY_ALIGN float values[hn::MaxLanes(D())];
  hn::Store(v, d, values);
  for (int64_t i = 0; i < n; ++i) narrow(values[i], to[i]);
}

// exp(v) for v <= 88, to 2e-7 in float32, zero below -87: half the work of Highway's, which is
// accurate to about one ulp and handles subnormal numbers.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> FastExp(D d, hn::Vec<D> v) {
  if constexpr (sizeof(T) == 8) {
    return hn::Exp(d, v);
  } else {
    const hn::RebindToSigned<D> integers;
    const auto least = hn::Set(d, -87.0f), x = hn::Max(v, least);
    const auto n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
    // x - n log(2), with the logarithm as a sum of two.
    const auto r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f),
                                 hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x));
    auto p = hn::Set(d, 1.0f / 5040);  // 1 + r + r^2 / 2 + ...: the rest is below 6e-9
    for (const float c : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
      p = hn::MulAdd(p, r, hn::Set(d, c));
    const auto power = hn::Add(hn::ConvertTo(integers, n), hn::Set(integers, 127));
    return hn::IfThenElseZero(hn::Ge(v, least),
                              hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(power))));
  }
}

// 1 / v for 1 <= v < 1e38, to 1e-7. Before AVX-512 the approximation is too coarse for one step.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> FastReciprocal(D d, hn::Vec<D> v) {
  if constexpr (sizeof(T) == 8 || HWY_TARGET > HWY_AVX3) {
    return hn::Div(hn::Set(d, T{1}), v);
  } else {
    const auto guess = hn::ApproximateReciprocal(v);
    return hn::Mul(guess, hn::NegMulAdd(guess, v, hn::Set(d, 2.0f)));
  }
}

template <class D>
HWY_INLINE hn::Vec<D> Sigmoid(D d, hn::Vec<D> v) {
  using T = hn::TFromD<D>;
  // Below this, exp(-v) overflows and the result is zero. A small number instead of zero would show
  // in a product with -1e38.
  const auto least = hn::Set(d, sizeof(T) == 4 ? T{-85} : T{-700});
  const auto e = FastExp(d, hn::Neg(hn::Max(v, least)));
  return hn::IfThenElseZero(hn::Ge(v, least), FastReciprocal(d, hn::Add(hn::Set(d, T{1}), e)));
}

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
