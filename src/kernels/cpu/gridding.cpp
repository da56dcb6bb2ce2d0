// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gridding.h"

#include <algorithm>
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

// Points on the grid: the first row of each window, and the weights of its rows.
template <class T>
struct Placed {
  int64_t row[kBatch];
  HWY_ALIGN_MAX double slope[kBatch];  // d s / d angle
  HWY_ALIGN_MAX T weight[kBatch][kMaxWindowWidth];
  HWY_ALIGN_MAX T derivative[kBatch][kMaxWindowWidth];  // by s, if requested
};

// Places up to kBatch points. Points of weight zero are added up to a multiple of four.
template <bool kSlope, class T>
HWY_ATTR void place(const Gridding<T>& p, const T* angle, int64_t count, Placed<T>& out) {
  const hn::CappedTag<double, 8> vd;
  const auto doubles = static_cast<int64_t>(hn::Lanes(vd));
  const auto one = hn::Set(vd, 1.0), half = hn::Set(vd, 0.5), two = hn::Set(vd, 2.0);
  const double rows = 2.0 * static_cast<double>(p.N);  // of a whole period
  const auto reach = hn::Set(vd, 0.5 + 0.5 * static_cast<double>(p.window.width));
  const auto up_slope = hn::Set(vd, 2 * rows * p.step);
  HWY_ALIGN_MAX double f[kBatch] = {}, first[kBatch], s[kBatch];
  for (int64_t k = 0; k < count; ++k) f[k] = static_cast<double>(angle[k]);
  for (int64_t k = 0; k < count; k += doubles) {
    auto x = hn::Mul(hn::Set(vd, p.step), hn::Load(vd, f + k));
    x = hn::Sub(x, hn::Floor(x));
    const auto mirrored = hn::Gt(x, half);
    x = hn::IfThenElse(mirrored, hn::Sub(one, x), x);
    const auto left = hn::Sub(hn::Mul(x, hn::Set(vd, rows)), reach), up = hn::Ceil(left);
    hn::Store(up, vd, first + k);
    hn::Store(hn::Sub(hn::Mul(two, hn::Sub(up, left)), one), vd, s + k);
    hn::Store(hn::IfThenElse(mirrored, up_slope, hn::Neg(up_slope)), vd, out.slope + k);
  }
  for (int64_t k = 0; k < count;
       ++k)  // an angle that is not finite gives weights that are not finite
    out.row[k] = first[k] == first[k] ? static_cast<int64_t>(first[k]) + p.window.margin() : 0;

  // Four Horner schemes at a time: each alone would wait for its own last step.
  const hn::CappedTag<T, kMaxWindowWidth> v;
  const auto lanes = static_cast<int64_t>(hn::Lanes(v));
  for (int64_t k = 0; k < count; k += 4) {
    const auto s0 = hn::Set(v, static_cast<T>(s[k])), s1 = hn::Set(v, static_cast<T>(s[k + 1])),
               s2 = hn::Set(v, static_cast<T>(s[k + 2])), s3 = hn::Set(v, static_cast<T>(s[k + 3]));
    for (int64_t m = 0; m < p.window.width; m += lanes) {
      const T* c = p.window.coefficients + m;
      auto w0 = hn::Load(v, c), w1 = w0, w2 = w0, w3 = w0;
      auto d0 = hn::Zero(v), d1 = d0, d2 = d0, d3 = d0;
      for (int64_t power = 1; power <= p.window.degree; ++power) {
        if constexpr (kSlope) {
          d0 = hn::MulAdd(d0, s0, w0);
          d1 = hn::MulAdd(d1, s1, w1);
          d2 = hn::MulAdd(d2, s2, w2);
          d3 = hn::MulAdd(d3, s3, w3);
        }
        const auto next = hn::Load(v, c + power * kMaxWindowWidth);
        w0 = hn::MulAdd(w0, s0, next);
        w1 = hn::MulAdd(w1, s1, next);
        w2 = hn::MulAdd(w2, s2, next);
        w3 = hn::MulAdd(w3, s3, next);
      }
      hn::Store(w0, v, out.weight[k] + m);
      hn::Store(w1, v, out.weight[k + 1] + m);
      hn::Store(w2, v, out.weight[k + 2] + m);
      hn::Store(w3, v, out.weight[k + 3] + m);
      if constexpr (kSlope) {
        hn::Store(d0, v, out.derivative[k] + m);
        hn::Store(d1, v, out.derivative[k + 1] + m);
        hn::Store(d2, v, out.derivative[k + 2] + m);
        hn::Store(d3, v, out.derivative[k + 3] + m);
      }
    }
  }
  for (int64_t k = count; k % 4 != 0; ++k) {
    out.row[k] = 0;
    std::fill_n(out.weight[k], kMaxWindowWidth, T(0));
    if constexpr (kSlope) std::fill_n(out.derivative[k], kMaxWindowWidth, T(0));
  }
}

// Calls f(number of vectors, first channel) for all channels of a row, four vectors at a time.
template <class T, class F>
HWY_ATTR HWY_INLINE void for_vectors(const Gridding<T>& p, F f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Vector<T>()));
  const int64_t row = p.row();
  int64_t c = 0;
  for (; c + 4 * lanes <= row; c += 4 * lanes) f(std::integral_constant<int, 4>(), c);
  for (; c < row; c += lanes) f(std::integral_constant<int, 1>(), c);
}

// Four sums at a time, so that none waits for its own last term: of four vectors for one point, or
// of one vector for four points.
template <bool kValue, bool kSlope, class T>
HWY_ATTR void interpolate_rows(const Gridding<T>& p, const T* HWY_RESTRICT grid,
                               const T* HWY_RESTRICT r, T* HWY_RESTRICT dangle, T* HWY_RESTRICT y) {
  const Vector<T> v;
  using V = hn::Vec<Vector<T>>;
  const int64_t row = p.row(), width = p.window.width;
  const auto lanes = static_cast<int64_t>(hn::Lanes(v));
  constexpr int64_t kLanes = kGridAlign / sizeof(T), kChannels = kMaxChannelBytes / sizeof(T);
  HWY_ALIGN_MAX T sum[kChannels];
  HWY_ALIGN_MAX T other[kChannels] = {};  // the row of r, then zeros
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
        constexpr bool kOnePoint = decltype(vectors)::value == 4;
        constexpr int64_t kPoints = kOnePoint ? 1 : 4;
        const int64_t l1 = kOnePoint ? lanes : 0, l2 = 2 * l1, l3 = 3 * l1;
        V y0 = hn::Load(v, sum + c), y1 = hn::Zero(v), y2 = y1, y3 = y1;
        if constexpr (kOnePoint) {
          y1 = hn::Load(v, sum + c + l1);
          y2 = hn::Load(v, sum + c + l2);
          y3 = hn::Load(v, sum + c + l3);
        }
        for (int64_t k = 0; k < count; k += kPoints) {
          const int64_t k1 = kOnePoint ? k : k + 1, k2 = kOnePoint ? k : k + 2,
                        k3 = kOnePoint ? k : k + 3;
          const T *g0 = grid + at.row[k] * row + c, *g1 = grid + at.row[k1] * row + c + l1,
                  *g2 = grid + at.row[k2] * row + c + l2, *g3 = grid + at.row[k3] * row + c + l3;
          V d0 = hn::Zero(v), d1 = d0, d2 = d0, d3 = d0;
          for (int64_t m = 0; m < width; ++m, g0 += row, g1 += row, g2 += row, g3 += row) {
            const V v0 = hn::Load(v, g0), v1 = hn::Load(v, g1), v2 = hn::Load(v, g2),
                    v3 = hn::Load(v, g3);
            if constexpr (kValue) {
              y0 = hn::MulAdd(hn::Set(v, at.weight[k][m]), v0, y0);
              y1 = hn::MulAdd(hn::Set(v, at.weight[k1][m]), v1, y1);
              y2 = hn::MulAdd(hn::Set(v, at.weight[k2][m]), v2, y2);
              y3 = hn::MulAdd(hn::Set(v, at.weight[k3][m]), v3, y3);
            }
            if constexpr (kSlope) {
              d0 = hn::MulAdd(hn::Set(v, at.derivative[k][m]), v0, d0);
              d1 = hn::MulAdd(hn::Set(v, at.derivative[k1][m]), v1, d1);
              d2 = hn::MulAdd(hn::Set(v, at.derivative[k2][m]), v2, d2);
              d3 = hn::MulAdd(hn::Set(v, at.derivative[k3][m]), v3, d3);
            }
          }
          if constexpr (kSlope) {
            const auto add = [&](int64_t point, V slope, int64_t l) HWY_ATTR {
              const V dot = hn::MulAdd(slope, hn::Load(v, other + c + l), hn::Load(v, dots[point]));
              hn::Store(dot, v, dots[point]);
            };
            add(k, d0, 0);
            add(k1, d1, l1);
            add(k2, d2, l2);
            add(k3, d3, l3);
          }
        }
        if constexpr (kOnePoint) {
          hn::Store(y1, v, sum + c + l1);
          hn::Store(y2, v, sum + c + l2);
          hn::Store(y3, v, sum + c + l3);
        } else {
          y0 = hn::Add(hn::Add(y0, y1), hn::Add(y2, y3));
        }
        hn::Store(y0, v, sum + c);
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
  HWY_ALIGN_MAX T value[kMaxChannelBytes / sizeof(T)] = {};  // the row of x, then zeros
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

// Highway dispatches functions, not templates.
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
