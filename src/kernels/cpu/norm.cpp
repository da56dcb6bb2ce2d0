// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/norm.h"

#include <cmath>

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cpp"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>

#include "kernels/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

template <class D>
HWY_INLINE double Total(D d, hn::Vec<D> v) {
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, v)));
}

// Visits the vectors of C channels; f(c, count) with count values from c on.
template <class D, class F>
HWY_INLINE void ForChannels(D d, int64_t begin, int64_t end, F&& f) {
  for (int64_t c = begin; c < end; c += static_cast<int64_t>(hn::Lanes(d))) f(c, end - c);
}

// One past the last row of a task.
HWY_INLINE int64_t TaskEnd(int64_t rows, int64_t task) {
  return HWY_MIN(rows, (task + 1) * kNormRows);
}

// Row r; null if there are no rows.
template <typename T>
HWY_INLINE T* RowAt(const StridedRows<T>& rows, int64_t r) {
  return rows.data == nullptr ? nullptr : rows.data + r * rows.stride;
}

template <typename S, typename T = Arithmetic<S>>
void GatedForward(const GatedNormForward<S>& p, int64_t task) {
  const hn::ScalableTag<T> d;
  const int64_t C = p.C, Z = p.Z, end = TaskEnd(p.rows, task);
  const int64_t y_row = p.y.stride, z_row = p.z.stride, out_row = p.out.stride;
  const T* weight = p.weight;
  for (int64_t r = task * kNormRows; r < end; ++r) {
    const S *y = RowAt(p.y, r), *z = RowAt(p.z, r);
    S* out = RowAt(p.out, r);
    auto squares = hn::Zero(d);
    ForChannels(d, 0, C, [&](int64_t c, int64_t n) HWY_ATTR {
      hwy::Prefetch(y + y_row + c);  // the next row may be on another page
      const auto v = LoadN(d, y + c, n);
      squares = hn::MulAdd(v, v, squares);
    });
    const auto scale = hn::Set(
        d, static_cast<T>(1 / std::sqrt(Total(d, squares) / static_cast<double>(C) + p.eps)));
    for (int64_t copy = 0; copy < C; copy += Z)
      ForChannels(d, 0, Z, [&](int64_t c, int64_t n) HWY_ATTR {
        hwy::Prefetch(z + z_row + c);
        hwy::Prefetch(out + out_row + copy + c);
        const auto g = LoadN(d, z + c, n);
        const auto normed =
            hn::Mul(hn::Mul(LoadN(d, y + copy + c, n), scale), LoadN(d, weight + copy + c, n));
        StoreN(hn::Mul(normed, hn::Mul(g, Sigmoid(d, g))), d, out + copy + c, n);
      });
  }
}

template <typename S, typename T = Arithmetic<S>>
void GatedBackward(const GatedNormBackward<S>& p, int64_t task) {
  const hn::ScalableTag<T> d;
  const int64_t C = p.C, Z = p.Z, end = TaskEnd(p.rows, task);
  const int64_t y_row = p.y.stride, z_row = p.z.stride, dout_row = p.dout.stride,
                dy_row = p.dy.stride, dz_row = p.dz.stride;
  const T* weight = p.weight;
  T* dweight = p.workspace + task * C;
  const auto one = hn::Set(d, T{1});
  for (int64_t c = 0; c < C; ++c) dweight[c] = 0;
  for (int64_t r = task * kNormRows; r < end; ++r) {
    const S *y = RowAt(p.y, r), *z = RowAt(p.z, r), *dout = RowAt(p.dout, r);
    S *dy = RowAt(p.dy, r), *dz = RowAt(p.dz, r);
    // With out = (y scale) (weight gate) and v = dout gate weight,
    //
    //   dy = scale (v - y scale^2 mean(v y))
    auto squares = hn::Zero(d), products = hn::Zero(d);
    for (int64_t copy = 0; copy < C; copy += Z)
      ForChannels(d, 0, Z, [&](int64_t c, int64_t n) HWY_ATTR {
        hwy::Prefetch(y + y_row + copy + c);
        hwy::Prefetch(z + z_row + c);
        hwy::Prefetch(dout + dout_row + copy + c);
        const auto v = LoadN(d, y + copy + c, n), g = LoadN(d, z + c, n);
        const auto gate = hn::Mul(g, Sigmoid(d, g));
        const auto weighted =
            hn::Mul(hn::Mul(LoadN(d, dout + copy + c, n), gate), LoadN(d, weight + copy + c, n));
        squares = hn::MulAdd(v, v, squares);
        products = hn::MulAdd(weighted, v, products);
      });
    const double inverse = 1 / std::sqrt(Total(d, squares) / static_cast<double>(C) + p.eps);
    const auto scale = hn::Set(d, static_cast<T>(inverse));
    const auto pull =
        hn::Set(d, static_cast<T>(inverse * inverse * Total(d, products) / static_cast<double>(C)));
    ForChannels(d, 0, Z, [&](int64_t c, int64_t n) HWY_ATTR {
      const auto g = LoadN(d, z + c, n), sigmoid = Sigmoid(d, g), gate = hn::Mul(g, sigmoid);
      const auto slope = hn::Mul(sigmoid, hn::MulAdd(g, hn::Sub(one, sigmoid), one));
      hwy::Prefetch(dz + dz_row + c);
      auto dgate = hn::Zero(d);
      for (int64_t copy = 0; copy < C; copy += Z) {
        hwy::Prefetch(dy + dy_row + copy + c);
        const auto v = LoadN(d, y + copy + c, n), o = LoadN(d, dout + copy + c, n);
        const auto w = LoadN(d, weight + copy + c, n), normed = hn::Mul(v, scale);
        const auto on = hn::Mul(o, normed);
        StoreN(hn::MulAdd(on, gate, LoadN(d, dweight + copy + c, n)), d, dweight + copy + c, n);
        dgate = hn::MulAdd(on, w, dgate);
        const auto weighted = hn::Mul(hn::Mul(o, gate), w);
        StoreN(hn::Mul(scale, hn::NegMulAdd(v, pull, weighted)), d, dy + copy + c, n);
      }
      StoreN(hn::Mul(dgate, slope), d, dz + c, n);
    });
  }
}

// Mean and inverse deviation of a + b.
struct Moments {
  double mean, inverse;
};
template <typename S, class D>
HWY_INLINE hn::Vec<D> SumAt(D d, const S* a, const S* b, int64_t c, int64_t n) {
  const auto v = LoadN(d, a + c, n);
  return b == nullptr ? v : hn::Add(v, LoadN(d, b + c, n));
}
template <typename S, class D>
HWY_INLINE Moments MomentsOf(D d, int64_t C, double eps, const S* a, const S* b) {
  using T = hn::TFromD<D>;
  auto sum = hn::Zero(d);
  ForChannels(d, 0, C,
              [&](int64_t c, int64_t n) HWY_ATTR { sum = hn::Add(sum, SumAt<S>(d, a, b, c, n)); });
  const double mean = Total(d, sum) / static_cast<double>(C);
  auto squares = hn::Zero(d);
  ForChannels(d, 0, C, [&](int64_t c, int64_t n) HWY_ATTR {
    auto v = hn::Sub(SumAt<S>(d, a, b, c, n), hn::Set(d, static_cast<T>(mean)));
    if (n < static_cast<int64_t>(hn::Lanes(d)))
      v = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n)), v);
    squares = hn::MulAdd(v, v, squares);
  });
  return {mean, 1 / std::sqrt(Total(d, squares) / static_cast<double>(C) + eps)};
}

template <typename S, typename T = Arithmetic<S>>
void LayerForward(const LayerNormForward<S, S>& p, int64_t task) {
  const hn::ScalableTag<T> d;
  const int64_t C = p.C, last = TaskEnd(p.rows, task);
  const T *weight = p.weight, *bias = p.bias;
  for (int64_t r = task * kNormRows; r < last; ++r) {
    const S *a = RowAt(p.a, r), *b = RowAt(p.b, r);
    S* out = RowAt(p.out, r);
    const Moments m = MomentsOf<S>(d, C, p.eps, a, b);
    const auto mean = hn::Set(d, static_cast<T>(m.mean)),
               inverse = hn::Set(d, static_cast<T>(m.inverse));
    ForChannels(d, 0, C, [&](int64_t c, int64_t n) HWY_ATTR {
      const auto normed = hn::Mul(hn::Sub(SumAt<S>(d, a, b, c, n), mean), inverse);
      StoreN(hn::MulAdd(normed, LoadN(d, weight + c, n), LoadN(d, bias + c, n)), d, out + c, n);
    });
  }
}

template <typename S, typename T = Arithmetic<S>>
void LayerBackward(const LayerNormBackward<S, S>& p, int64_t task) {
  const hn::ScalableTag<T> d;
  const int64_t C = p.C, last = TaskEnd(p.rows, task);
  const T* weight = p.weight;
  T* dweight = p.workspace + task * 2 * C;
  for (int64_t c = 0; c < 2 * C; ++c) dweight[c] = 0;
  for (int64_t r = task * kNormRows; r < last; ++r) {
    const S *a = RowAt(p.a, r), *b = RowAt(p.b, r), *dout = RowAt(p.dout, r);
    S* dsum = RowAt(p.da, r);
    const Moments m = MomentsOf<S>(d, C, p.eps, a, b);
    const auto mean = hn::Set(d, static_cast<T>(m.mean)),
               inverse = hn::Set(d, static_cast<T>(m.inverse));
    auto total = hn::Zero(d), along = hn::Zero(d);
    ForChannels(d, 0, C, [&](int64_t c, int64_t n) HWY_ATTR {
      const auto normed = hn::Mul(hn::Sub(SumAt<S>(d, a, b, c, n), mean), inverse);
      const auto o = LoadN(d, dout + c, n), v = hn::Mul(o, LoadN(d, weight + c, n));
      StoreN(hn::MulAdd(o, normed, LoadN(d, dweight + c, n)), d, dweight + c, n);
      StoreN(hn::Add(o, LoadN(d, dweight + C + c, n)), d, dweight + C + c, n);
      total = hn::Add(total, v);
      along = hn::MulAdd(v, normed, along);
    });
    const auto mean_v = hn::Set(d, static_cast<T>(Total(d, total) / static_cast<double>(C)));
    const auto pull = hn::Set(d, static_cast<T>(Total(d, along) / static_cast<double>(C)));
    ForChannels(d, 0, C, [&](int64_t c, int64_t n) HWY_ATTR {
      const auto normed = hn::Mul(hn::Sub(SumAt<S>(d, a, b, c, n), mean), inverse);
      const auto v = hn::Mul(LoadN(d, dout + c, n), LoadN(d, weight + c, n));
      StoreN(hn::Mul(inverse, hn::NegMulAdd(normed, pull, hn::Sub(v, mean_v))), d, dsum + c, n);
    });
  }
}

#define HYDRAMIX_NORM(S, name)                                                                   \
  void GatedForward##name(const GatedNormForward<S>& p, int64_t task) { GatedForward(p, task); } \
  void GatedBackward##name(const GatedNormBackward<S>& p, int64_t task) {                        \
    GatedBackward(p, task);                                                                      \
  }                                                                                              \
  void LayerForward##name(const LayerNormForward<S, S>& p, int64_t task) {                       \
    LayerForward(p, task);                                                                       \
  }                                                                                              \
  void LayerBackward##name(const LayerNormBackward<S, S>& p, int64_t task) {                     \
    LayerBackward(p, task);                                                                      \
  }
HYDRAMIX_NORM(float, F32)
HYDRAMIX_NORM(double, F64)
HYDRAMIX_NORM(BFloat16, BF16)

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

#define HYDRAMIX_EXPORT_NORM(S, name)                                           \
  HWY_EXPORT(GatedForward##name);                                               \
  HWY_EXPORT(GatedBackward##name);                                              \
  HWY_EXPORT(LayerForward##name);                                               \
  HWY_EXPORT(LayerBackward##name);                                              \
  template <>                                                                   \
  void gated_norm_forward<S>(const GatedNormForward<S>& p, int64_t task) {      \
    HWY_DYNAMIC_DISPATCH(GatedForward##name)(p, task);                          \
  }                                                                             \
  template <>                                                                   \
  void gated_norm_backward<S>(const GatedNormBackward<S>& p, int64_t task) {    \
    HWY_DYNAMIC_DISPATCH(GatedBackward##name)(p, task);                         \
  }                                                                             \
  template <>                                                                   \
  void layer_norm_forward<S>(const LayerNormForward<S, S>& p, int64_t task) {   \
    HWY_DYNAMIC_DISPATCH(LayerForward##name)(p, task);                          \
  }                                                                             \
  template <>                                                                   \
  void layer_norm_backward<S>(const LayerNormBackward<S, S>& p, int64_t task) { \
    HWY_DYNAMIC_DISPATCH(LayerBackward##name)(p, task);                         \
  }
HYDRAMIX_EXPORT_NORM(float, F32)
HYDRAMIX_EXPORT_NORM(double, F64)
HYDRAMIX_EXPORT_NORM(BFloat16, BF16)

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
