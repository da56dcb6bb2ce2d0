// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/complex_scan.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/complex_scan.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

using Wide = hn::ScalableTag<double>;
using WideVector = hn::Vec<Wide>;

// The first `count` values at `from` in float64.
HWY_INLINE WideVector LoadWide(Wide d, const double* from, int64_t count) {
  return LoadN(d, from, count);
}
HWY_INLINE WideVector LoadWide(Wide d, const float* from, int64_t count) {
  return hn::PromoteTo(d, LoadN(hn::Rebind<float, Wide>(), from, count));
}
HWY_INLINE void StoreWide(WideVector v, Wide d, double* to, int64_t count) {
  StoreN(v, d, to, count);
}
HWY_INLINE void StoreWide(WideVector v, Wide, float* to, int64_t count) {
  const hn::Rebind<float, Wide> narrow;
  StoreN(hn::DemoteTo(narrow, v), narrow, to, count);
}

// Calls f(channel, count) for every vector of a task.
template <class F>
HWY_INLINE void ForTaskVectors(int64_t C, int64_t task, F&& f) {
  const int64_t lanes = hn::Lanes(Wide()), first = task * kComplexChannels;
  const int64_t end = HWY_MIN(first + kComplexChannels, C);
  for (int64_t at = first; at < end; at += lanes) f(at, HWY_MIN(lanes, end - at));
}

// Places that all vectors of a task walk before the next ones, so that their rows stay in the
// cache.
constexpr int64_t kComplexRun = 64;

template <typename S>
void ComplexForward(const ComplexScanForward<S>& p, const ComplexScanRange& range, int64_t task) {
  const Wide d;
  for (int64_t begin = range.begin; begin < range.end; begin += kComplexRun) {
    const int64_t end = HWY_MIN(begin + kComplexRun, range.end);
    ForTaskVectors(p.shape.C, task, [&](int64_t at, int64_t count) HWY_ATTR {
      const auto a = LoadWide(d, p.re + at, count), b = LoadWide(d, p.im + at, count);
      auto re = hn::Zero(d), im = hn::Zero(d);
      if (begin > range.begin) {
        const S* before = p.y.data + (begin - 1) * p.y.stride + at;
        re = LoadWide(d, before, count);
        im = LoadWide(d, before + p.shape.C, count);
      }
      for (int64_t t = begin; t < end; ++t) {
        const auto x = LoadWide(d, p.x.data + t * p.x.stride + at, count);
        const auto next = hn::NegMulAdd(b, im, hn::MulAdd(a, re, x));
        im = hn::MulAdd(a, im, hn::Mul(b, re));
        re = next;
        S* to = p.y.data + t * p.y.stride + at;
        StoreWide(re, d, to, count);
        StoreWide(im, d, to + p.shape.C, count);
      }
    });
  }
}

// The adjoint of h runs backwards with the conjugate: g_t = dy_t + conj(lambda) g_{t+1}.
template <typename S>
void ComplexBackward(const ComplexScanBackward<S>& p, const ComplexScanRange& range, int64_t task) {
  const Wide d;
  ForTaskVectors(p.shape.C, task, [&](int64_t at, int64_t count) HWY_ATTR {
    const auto a = LoadWide(d, p.re + at, count), b = LoadWide(d, p.im + at, count);
    auto re = hn::Zero(d), im = hn::Zero(d), da = hn::Zero(d), db = hn::Zero(d);
    for (int64_t t = range.end - 1; t >= range.begin; --t) {
      const S* dy = p.dy.data + t * p.dy.stride + at;
      const auto next = hn::MulAdd(b, im, hn::MulAdd(a, re, LoadWide(d, dy, count)));
      im = hn::NegMulAdd(b, re, hn::MulAdd(a, im, LoadWide(d, dy + p.shape.C, count)));
      re = next;
      StoreWide(re, d, p.dx.data + t * p.dx.stride + at, count);
      if (t == range.begin) break;
      const S* before = p.y.data + (t - 1) * p.y.stride + at;
      const auto h_re = LoadWide(d, before, count), h_im = LoadWide(d, before + p.shape.C, count);
      da = hn::MulAdd(re, h_re, hn::MulAdd(im, h_im, da));
      db = hn::MulAdd(im, h_re, hn::NegMulAdd(re, h_im, db));
    }
    StoreWide(da, d, p.dre + range.sequence * p.shape.C + at, count);
    StoreWide(db, d, p.dim + range.sequence * p.shape.C + at, count);
  });
}

#define HYDRAMIX_COMPLEX_SCAN(S, name)                                                       \
  void ComplexForward##name(const ComplexScanForward<S>& p, const ComplexScanRange& range,   \
                            int64_t task) {                                                  \
    ComplexForward(p, range, task);                                                          \
  }                                                                                          \
  void ComplexBackward##name(const ComplexScanBackward<S>& p, const ComplexScanRange& range, \
                             int64_t task) {                                                 \
    ComplexBackward(p, range, task);                                                         \
  }
HYDRAMIX_COMPLEX_SCAN(float, F32)
HYDRAMIX_COMPLEX_SCAN(double, F64)

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

#define HYDRAMIX_EXPORT_COMPLEX_SCAN(S, name)                                                   \
  HWY_EXPORT(ComplexForward##name);                                                             \
  HWY_EXPORT(ComplexBackward##name);                                                            \
  template <>                                                                                   \
  void complex_scan_forward<S>(const ComplexScanForward<S>& p, const ComplexScanRange& range,   \
                               int64_t task) {                                                  \
    HWY_DYNAMIC_DISPATCH(ComplexForward##name)(p, range, task);                                 \
  }                                                                                             \
  template <>                                                                                   \
  void complex_scan_backward<S>(const ComplexScanBackward<S>& p, const ComplexScanRange& range, \
                                int64_t task) {                                                 \
    HWY_DYNAMIC_DISPATCH(ComplexBackward##name)(p, range, task);                                \
  }
HYDRAMIX_EXPORT_COMPLEX_SCAN(float, F32)
HYDRAMIX_EXPORT_COMPLEX_SCAN(double, F64)

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
