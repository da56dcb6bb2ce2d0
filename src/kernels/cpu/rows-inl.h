// SPDX-License-Identifier: Apache-2.0
// Rows of channels, vector by vector, in any storage and of any length, and what is done to them.
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

// The `count` values at `from`, of which a vector of D takes at most its lanes; zeros behind.
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

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V v) {
  using T = hn::TFromD<D>;
  const auto one = hn::Set(d, T{1});
  // Where exp() would overflow its inverse is zero; the last one before that is not, and would show
  // in a product with -1e38.
  const auto least = hn::Set(d, sizeof(T) == 4 ? T{-85} : T{-700});
  return hn::IfThenElseZero(hn::Ge(v, least),
                            hn::Div(one, hn::Add(one, hn::Exp(d, hn::Neg(hn::Max(v, least))))));
}

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
