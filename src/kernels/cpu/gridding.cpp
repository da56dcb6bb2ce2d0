// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gridding.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gridding.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kBatch = 16;  // points whose weights are held at a time

template <class T>
using Vector = hn::CappedTag<T, kGridAlign / sizeof(T)>;

// Points on the grid: first row of the window, and the weights of its rows.
template <class T>
struct Placed {
  int64_t row[kBatch];
  double slope[kBatch];  // d s / d angle
  HWY_ALIGN_MAX T weight[kBatch][kMaxWindowWidth];
  HWY_ALIGN_MAX T derivative[kBatch][kMaxWindowWidth];  // by s, if asked for
};

template <bool kSlope, class T>
HWY_ATTR void place(const Gridding<T>& p, const T* angle, int64_t count, Placed<T>& out) {
  const hn::CappedTag<T, kMaxWindowWidth> v;
  const auto lanes = static_cast<int64_t>(hn::Lanes(v));
  const double scale = 2.0 * static_cast<double>(p.N);
  const double first = 0.5 + 0.5 * static_cast<double>(p.window.width);
  for (int64_t k = 0; k < count; ++k) {
    double f = p.step * static_cast<double>(angle[k]);
    f -= std::floor(f);
    const bool mirrored = f > 0.5;
    if (mirrored) f = 1 - f;
    const double left = f * scale - first, up = std::ceil(left);
    const bool finite = f >= 0;  // an angle that is not gives weights that are not
    out.row[k] = finite ? static_cast<int64_t>(up) + p.window.margin() : 0;
    out.slope[k] = (mirrored ? 2 : -2) * scale * p.step;
    const auto s = hn::Set(v, static_cast<T>(finite ? 2 * (up - left) - 1 : f));
    for (int64_t m = 0; m < p.window.width; m += lanes) {
      const T* c = p.window.coefficients + m;
      auto weight = hn::Load(v, c), derivative = hn::Zero(v);
      for (int64_t power = 1; power <= p.window.degree; ++power) {
        if constexpr (kSlope) derivative = hn::MulAdd(derivative, s, weight);
        weight = hn::MulAdd(weight, s, hn::Load(v, c + power * kMaxWindowWidth));
      }
      hn::Store(weight, v, out.weight[k] + m);
      if constexpr (kSlope) hn::Store(derivative, v, out.derivative[k] + m);
    }
  }
}

// Calls f<number of vectors>(first channel) for all channels of a row, four vectors at a time.
template <class T, class F>
HWY_ATTR HWY_INLINE void for_vectors(const Gridding<T>& p, F f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Vector<T>()));
  const int64_t row = p.row();
  int64_t c = 0;
  for (; c + 4 * lanes <= row; c += 4 * lanes) f(std::integral_constant<int, 4>(), c);
  for (; c < row; c += lanes) f(std::integral_constant<int, 1>(), c);
}

template <bool kValue, bool kSlope, class T>
HWY_ATTR void interpolate_rows(const Gridding<T>& p, const T* HWY_RESTRICT grid,
                               const T* HWY_RESTRICT r, T* HWY_RESTRICT dangle, T* HWY_RESTRICT y) {
  const Vector<T> v;
  using V = hn::Vec<Vector<T>>;
  const int64_t row = p.row(), width = p.window.width;
  const auto lanes = static_cast<int64_t>(hn::Lanes(v));
  constexpr int64_t kLanes = kGridAlign / sizeof(T), kChannels = kMaxChannelBytes / sizeof(T);
  HWY_ALIGN_MAX T sum[kChannels];
  HWY_ALIGN_MAX T other[kChannels] = {};  // the row of r, zeros behind
  HWY_ALIGN_MAX T dots[kBatch][kLanes];
  Placed<T> at;
  for (int64_t i = 0; i < p.L; ++i) {
    std::fill(sum, sum + row, T(0));
    if constexpr (kSlope) std::copy_n(r + i * p.x_stride, p.C, other);
    for (int64_t d = 0; d < p.D; d += kBatch) {
      const int64_t count = std::min(kBatch, p.D - d);
      place<kSlope>(p, p.angle + i * p.D + d, count, at);
      if constexpr (kSlope) std::memset(dots, 0, sizeof dots);
      for_vectors(p, [&](auto vectors, int64_t c) HWY_ATTR {
        constexpr bool kFour = decltype(vectors)::value == 4;
        V y0 = hn::Load(v, sum + c), y1 = hn::Zero(v), y2 = y1, y3 = y1;
        if constexpr (kFour) {
          y1 = hn::Load(v, sum + c + lanes);
          y2 = hn::Load(v, sum + c + 2 * lanes);
          y3 = hn::Load(v, sum + c + 3 * lanes);
        }
        for (int64_t k = 0; k < count; ++k) {
          const T* g = grid + at.row[k] * row + c;
          V d0 = hn::Zero(v), d1 = d0, d2 = d0, d3 = d0;
          for (int64_t m = 0; m < width; ++m, g += row) {
            const V w = hn::Set(v, at.weight[k][m]);
            const V g0 = hn::Load(v, g);
            const V dw = hn::Set(v, kSlope ? at.derivative[k][m] : T(0));
            if constexpr (kValue) y0 = hn::MulAdd(w, g0, y0);
            if constexpr (kSlope) d0 = hn::MulAdd(dw, g0, d0);
            if constexpr (kFour) {
              const V g1 = hn::Load(v, g + lanes), g2 = hn::Load(v, g + 2 * lanes),
                      g3 = hn::Load(v, g + 3 * lanes);
              if constexpr (kValue) {
                y1 = hn::MulAdd(w, g1, y1);
                y2 = hn::MulAdd(w, g2, y2);
                y3 = hn::MulAdd(w, g3, y3);
              }
              if constexpr (kSlope) {
                d1 = hn::MulAdd(dw, g1, d1);
                d2 = hn::MulAdd(dw, g2, d2);
                d3 = hn::MulAdd(dw, g3, d3);
              }
            }
          }
          if constexpr (kSlope) {
            V dot = hn::MulAdd(d0, hn::Load(v, other + c), hn::Load(v, dots[k]));
            if constexpr (kFour) {
              dot = hn::MulAdd(d1, hn::Load(v, other + c + lanes), dot);
              dot = hn::MulAdd(d2, hn::Load(v, other + c + 2 * lanes), dot);
              dot = hn::MulAdd(d3, hn::Load(v, other + c + 3 * lanes), dot);
            }
            hn::Store(dot, v, dots[k]);
          }
        }
        hn::Store(y0, v, sum + c);
        if constexpr (kFour) {
          hn::Store(y1, v, sum + c + lanes);
          hn::Store(y2, v, sum + c + 2 * lanes);
          hn::Store(y3, v, sum + c + 3 * lanes);
        }
      });
      if constexpr (kSlope)
        for (int64_t k = 0; k < count; ++k) {
          const T dot = hn::GetLane(hn::SumOfLanes(v, hn::Load(v, dots[k])));
          dangle[i * p.D + d + k] = static_cast<T>(at.slope[k] * static_cast<double>(dot));
        }
    }
    if constexpr (kValue) std::copy_n(sum, p.C, y + i * p.x_stride);
  }
}

template <class T>
HWY_ATTR void spread_rows(const Gridding<T>& p, const T* HWY_RESTRICT x, T* HWY_RESTRICT grid) {
  const Vector<T> v;
  using V = hn::Vec<Vector<T>>;
  const int64_t row = p.row(), width = p.window.width;
  const auto lanes = static_cast<int64_t>(hn::Lanes(v));
  HWY_ALIGN_MAX T value[kMaxChannelBytes / sizeof(T)] = {};  // the row of x, zeros behind
  Placed<T> at;
  for (int64_t i = 0; i < p.L; ++i) {
    std::copy_n(x + i * p.x_stride, p.C, value);
    for (int64_t d = 0; d < p.D; d += kBatch) {
      const int64_t count = std::min(kBatch, p.D - d);
      place<false>(p, p.angle + i * p.D + d, count, at);
      for_vectors(p, [&](auto vectors, int64_t c) HWY_ATTR {
        constexpr bool kFour = decltype(vectors)::value == 4;
        const V x0 = hn::Load(v, value + c);
        V x1 = x0, x2 = x0, x3 = x0;
        if constexpr (kFour) {
          x1 = hn::Load(v, value + c + lanes);
          x2 = hn::Load(v, value + c + 2 * lanes);
          x3 = hn::Load(v, value + c + 3 * lanes);
        }
        for (int64_t k = 0; k < count; ++k) {
          T* g = grid + at.row[k] * row + c;
          for (int64_t m = 0; m < width; ++m, g += row) {
            const V w = hn::Set(v, at.weight[k][m]);
            hn::Store(hn::MulAdd(w, x0, hn::Load(v, g)), v, g);
            if constexpr (kFour) {
              hn::Store(hn::MulAdd(w, x1, hn::Load(v, g + lanes)), v, g + lanes);
              hn::Store(hn::MulAdd(w, x2, hn::Load(v, g + 2 * lanes)), v, g + 2 * lanes);
              hn::Store(hn::MulAdd(w, x3, hn::Load(v, g + 3 * lanes)), v, g + 3 * lanes);
            }
          }
        }
      });
    }
  }
}

// Dispatch is by name, and a template has none.
void interpolate_f32(const Gridding<float>& p, const float* grid, float* y) {
  interpolate_rows<true, false, float>(p, grid, nullptr, nullptr, y);
}
void interpolate_f64(const Gridding<double>& p, const double* grid, double* y) {
  interpolate_rows<true, false, double>(p, grid, nullptr, nullptr, y);
}
void slope_f32(const Gridding<float>& p, const float* grid, const float* r, float* dangle,
               float* y) {
  if (y != nullptr) return interpolate_rows<true, true, float>(p, grid, r, dangle, y);
  interpolate_rows<false, true, float>(p, grid, r, dangle, nullptr);
}
void slope_f64(const Gridding<double>& p, const double* grid, const double* r, double* dangle,
               double* y) {
  if (y != nullptr) return interpolate_rows<true, true, double>(p, grid, r, dangle, y);
  interpolate_rows<false, true, double>(p, grid, r, dangle, nullptr);
}
void spread_f32(const Gridding<float>& p, const float* x, float* grid) {
  spread_rows<float>(p, x, grid);
}
void spread_f64(const Gridding<double>& p, const double* x, double* grid) {
  spread_rows<double>(p, x, grid);
}

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

HWY_EXPORT(interpolate_f32);
HWY_EXPORT(interpolate_f64);
HWY_EXPORT(slope_f32);
HWY_EXPORT(slope_f64);
HWY_EXPORT(spread_f32);
HWY_EXPORT(spread_f64);

void interpolate(const Gridding<float>& p, const float* grid, float* y) {
  HWY_DYNAMIC_DISPATCH(interpolate_f32)(p, grid, y);
}
void interpolate(const Gridding<double>& p, const double* grid, double* y) {
  HWY_DYNAMIC_DISPATCH(interpolate_f64)(p, grid, y);
}
void interpolate_with_slope(const Gridding<float>& p, const float* grid, const float* r,
                            float* dangle, float* y) {
  HWY_DYNAMIC_DISPATCH(slope_f32)(p, grid, r, dangle, y);
}
void interpolate_with_slope(const Gridding<double>& p, const double* grid, const double* r,
                            double* dangle, double* y) {
  HWY_DYNAMIC_DISPATCH(slope_f64)(p, grid, r, dangle, y);
}
void spread(const Gridding<float>& p, const float* x, float* grid) {
  HWY_DYNAMIC_DISPATCH(spread_f32)(p, x, grid);
}
void spread(const Gridding<double>& p, const double* x, double* grid) {
  HWY_DYNAMIC_DISPATCH(spread_f64)(p, x, grid);
}

}  // namespace hydramix::kernels
#endif
