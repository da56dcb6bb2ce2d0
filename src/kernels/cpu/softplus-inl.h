// SPDX-License-Identifier: Apache-2.0
// dt = softplus(v) within limits, and its derivative. A NaN stays a NaN.
// Included once per instruction set (hence no pragma once).
#if defined(HYDRAMIX_KERNELS_CPU_SOFTPLUS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRAMIX_KERNELS_CPU_SOFTPLUS_INL_H_
#undef HYDRAMIX_KERNELS_CPU_SOFTPLUS_INL_H_
#else
#define HYDRAMIX_KERNELS_CPU_SOFTPLUS_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, typename T = hn::TFromD<D>>
class ClampedSoftplus {
 public:
  ClampedSoftplus(D d, double low, double high)
      : d_(d),
        limited_(low > 0 || !std::isinf(high)),
        low_(static_cast<T>(low)),
        high_(static_cast<T>(high)) {}

  HWY_INLINE hn::Vec<D> operator()(hn::Vec<D> v) const {
    const auto clamped = hn::Min(hn::Max(Softplus(v), hn::Set(d_, low_)), hn::Set(d_, high_));
    return hn::IfThenElse(hn::Eq(v, v), clamped, v);
  }

  // The gradient of v, given that of dt. It is zero where a limit applies.
  HWY_INLINE hn::Vec<D> Gradient(hn::Vec<D> v, hn::Vec<D> ddt) const {
    const auto most = hn::Set(d_, kMost), one = hn::Set(d_, T{1});
    const auto e = hn::Exp(d_, hn::Min(v, most));
    const auto slope = hn::IfThenElse(hn::Gt(v, most), one, hn::Div(e, hn::Add(e, one)));
    const auto dv = hn::Mul(hn::IfThenElse(hn::Eq(v, v), slope, v), ddt);
    if (!limited_) return dv;
    const auto free = Softplus(v);
    return hn::IfThenZeroElse(
        hn::Or(hn::Lt(free, hn::Set(d_, low_)), hn::Gt(free, hn::Set(d_, high_))), dv);
  }

 private:
  static constexpr T kMost = 20;  // softplus is the identity above this, as in LibTorch

  HWY_INLINE hn::Vec<D> Softplus(hn::Vec<D> v) const {
    const auto most = hn::Set(d_, kMost);
    return hn::IfThenElse(hn::Gt(v, most), v, hn::Log1p(d_, hn::Exp(d_, hn::Min(v, most))));
  }

  D d_;
  bool limited_;
  T low_, high_;
};

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
