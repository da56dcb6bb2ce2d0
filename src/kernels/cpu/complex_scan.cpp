// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/complex_scan.h"

#include <cstring>

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/complex_scan.cpp"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
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

// The channels of a task.
struct ComplexPart {
  int64_t first, count;
  ComplexPart(int64_t C, int64_t task)
      : first(task * kComplexChannels), count(HWY_MIN(kComplexChannels, C - first)) {}
};

// Numbers of a task, a lane for every channel, that run on from position to position.
using ComplexRunning = double[kComplexChannels];

// The channels of a position are walked before those of the next one: rows are read whole, and the
// chains of operations of different channels hide each other's latency. Rows are prefetched so many
// positions ahead: a task's part of a row is too short for the hardware to follow.
constexpr int64_t kComplexAhead = 8;

// The part of row t that a task has.
template <typename S>
HWY_INLINE S* PartOfRow(const StridedRows<S>& rows, int64_t t, const ComplexPart& part) {
  return rows.data + t * rows.stride + part.first;
}

template <typename S>
void ComplexForward(const ComplexScanForward<S>& p, const ComplexScanRange& range, int64_t task) {
  const Wide d;
  const int64_t lanes = hn::Lanes(d), C = p.shape.C;
  const ComplexPart part(C, task);
  const double *HWY_RESTRICT a = p.re + part.first, *HWY_RESTRICT b = p.im + part.first;
  HWY_ALIGN ComplexRunning h_re = {}, h_im = {};
  for (int64_t t = range.begin; t < range.end; ++t) {
    const int64_t next = HWY_MIN(t + kComplexAhead, range.end - 1);
    const S *x = PartOfRow(p.x, t, part), *x_next = PartOfRow(p.x, next, part);
    S *y = PartOfRow(p.y, t, part), *y_next = PartOfRow(p.y, next, part);
    for (int64_t i = 0; i < part.count; i += lanes) {
      hwy::Prefetch(x_next + i), hwy::Prefetch(y_next + i), hwy::Prefetch(y_next + C + i);
      const int64_t count = part.count - i;
      const auto re = hn::Load(d, h_re + i), im = hn::Load(d, h_im + i);
      const auto lambda_re = LoadWide(d, a + i, count), lambda_im = LoadWide(d, b + i, count);
      const auto next_re =
          hn::NegMulAdd(lambda_im, im, hn::MulAdd(lambda_re, re, LoadWide(d, x + i, count)));
      const auto next_im = hn::MulAdd(lambda_re, im, hn::Mul(lambda_im, re));
      hn::Store(next_re, d, h_re + i);
      hn::Store(next_im, d, h_im + i);
      StoreWide(next_re, d, y + i, count);
      StoreWide(next_im, d, y + C + i, count);
    }
  }
}

// The adjoint of h runs backwards with the conjugate: g_t = dy_t + conj(lambda) g_{t+1}.
template <typename S>
void ComplexBackward(const ComplexScanBackward<S>& p, const ComplexScanRange& range, int64_t task) {
  const Wide d;
  const int64_t lanes = hn::Lanes(d), C = p.shape.C;
  const ComplexPart part(C, task);
  const double *HWY_RESTRICT a = p.re + part.first, *HWY_RESTRICT b = p.im + part.first;
  HWY_ALIGN ComplexRunning g_re = {}, g_im = {}, da = {}, db = {};
  for (int64_t t = range.end - 1; t >= range.begin; --t) {
    const int64_t next = HWY_MAX(t - kComplexAhead, range.begin);
    const S *dy = PartOfRow(p.dy, t, part), *dy_next = PartOfRow(p.dy, next, part);
    const S* y_next = PartOfRow(p.y, next, part);
    S *dx = PartOfRow(p.dx, t, part), *dx_next = PartOfRow(p.dx, next, part);
    const bool first = t == range.begin;
    const S* before = first ? nullptr : PartOfRow(p.y, t - 1, part);
    for (int64_t i = 0; i < part.count; i += lanes) {
      hwy::Prefetch(dy_next + i), hwy::Prefetch(dy_next + C + i);
      hwy::Prefetch(y_next + i), hwy::Prefetch(y_next + C + i);
      hwy::Prefetch(dx_next + i);
      const int64_t count = part.count - i;
      const auto old_re = hn::Load(d, g_re + i), old_im = hn::Load(d, g_im + i);
      const auto lambda_re = LoadWide(d, a + i, count), lambda_im = LoadWide(d, b + i, count);
      const auto re =
          hn::MulAdd(lambda_im, old_im, hn::MulAdd(lambda_re, old_re, LoadWide(d, dy + i, count)));
      const auto im = hn::NegMulAdd(lambda_im, old_re,
                                    hn::MulAdd(lambda_re, old_im, LoadWide(d, dy + C + i, count)));
      hn::Store(re, d, g_re + i);
      hn::Store(im, d, g_im + i);
      StoreWide(re, d, dx + i, count);
      if (first) continue;
      const auto h_re = LoadWide(d, before + i, count), h_im = LoadWide(d, before + C + i, count);
      hn::Store(hn::MulAdd(re, h_re, hn::MulAdd(im, h_im, hn::Load(d, da + i))), d, da + i);
      hn::Store(hn::MulAdd(im, h_re, hn::NegMulAdd(re, h_im, hn::Load(d, db + i))), d, db + i);
    }
  }
  const int64_t to = range.sequence * C + part.first;
  std::memcpy(p.dre + to, da, sizeof(double) * static_cast<size_t>(part.count));
  std::memcpy(p.dim + to, db, sizeof(double) * static_cast<size_t>(part.count));
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
