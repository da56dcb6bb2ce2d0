// SPDX-License-Identifier: Apache-2.0
// Sums over the lanes of several vectors. Included once per instruction set (hence no pragma once).
#if defined(HYDRAMIX_KERNELS_CPU_LANE_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRAMIX_KERNELS_CPU_LANE_SUMS_INL_H_
#undef HYDRAMIX_KERNELS_CPU_LANE_SUMS_INL_H_
#else
#define HYDRAMIX_KERNELS_CPU_LANE_SUMS_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET <= HWY_AVX3
// The sums of the lanes of four vectors, by half of the instructions of four single sums.
template <class D>
HWY_INLINE hn::Vec128<float> SumsOfLanes(D d, hn::Vec<D> v0, hn::Vec<D> v1, hn::Vec<D> v2,
                                         hn::Vec<D> v3) {
  const hn::Repartition<double, D> pairs;
  const hn::Half<D> half;
  const hn::Half<decltype(half)> quarter;
  const auto of_two = [&](hn::Vec<D> a, hn::Vec<D> b) HWY_ATTR {
    return hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  };
  const auto v01 = of_two(v0, v1), v23 = of_two(v2, v3);
  const auto v = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, v01, v23)),
                         hn::BitCast(d, hn::InterleaveUpper(pairs, v01, v23)));
  const auto h = hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v));
  return hn::Add(hn::LowerHalf(quarter, h), hn::UpperHalf(quarter, h));
}
#endif

// to (4) = the sums of the lanes of four vectors at `from`, one after the other.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void StoreSumsOfFour(D d, const T* HWY_RESTRICT from, T* HWY_RESTRICT to) {
  const int64_t lanes = hn::Lanes(d);
#if HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(T) == 4) {
    hn::StoreU(SumsOfLanes(d, hn::Load(d, from), hn::Load(d, from + lanes),
                           hn::Load(d, from + 2 * lanes), hn::Load(d, from + 3 * lanes)),
               hn::Full128<float>(), to);
    return;
  }
#endif
  for (int64_t j = 0; j < 4; ++j)
    to[j] = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, from + j * lanes)));
}

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
