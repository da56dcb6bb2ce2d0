// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/adamw.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/adamw.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

// Squares of float32 are added up in float64: gradients of 1e8 weights differ by many magnitudes.
template <typename T>
double SumOfSquares(int64_t n, const T* values) {
  // Eight sums, so that additions need not wait for each other; the same on every instruction set.
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int64_t k = 0; k < 8; ++k) {
      const auto value = static_cast<double>(values[i + k]);
      sums[k] += value * value;
    }
  for (; i < n; ++i) sums[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

template <typename T>
void AdamW(int64_t n, const AdamWCoefficients& step, const T* gradient, T* weight, T* m, T* v,
           T* average) {
  const hn::ScalableTag<T> d;
  const auto set = [&](double value) HWY_ATTR { return hn::Set(d, static_cast<T>(value)); };
  const auto scale = set(step.gradient_scale), beta1 = set(step.beta1), beta2 = set(step.beta2);
  const auto rest1 = set(1 - step.beta1), rest2 = set(1 - step.beta2), epsilon = set(step.epsilon);
  const auto rate = set(step.rate), denominator = set(step.denominator_scale);
  const auto keep = set(step.keep), ema = set(step.ema), rest = set(1 - step.ema);
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d))) {
    const int64_t left = n - i;
    const auto g = hn::Mul(LoadN(d, gradient + i, left), scale);
    const auto first = hn::MulAdd(LoadN(d, m + i, left), beta1, hn::Mul(g, rest1));
    const auto second = hn::MulAdd(LoadN(d, v + i, left), beta2, hn::Mul(hn::Mul(g, g), rest2));
    const auto change =
        hn::Div(hn::Mul(first, rate), hn::MulAdd(hn::Sqrt(second), denominator, epsilon));
    const auto w = hn::MulSub(LoadN(d, weight + i, left), keep, change);
    StoreN(first, d, m + i, left);
    StoreN(second, d, v + i, left);
    StoreN(w, d, weight + i, left);
    if (average != nullptr)
      StoreN(hn::MulAdd(LoadN(d, average + i, left), ema, hn::Mul(w, rest)), d, average + i, left);
  }
}

double SumOfSquaresF32(int64_t n, const float* values) { return SumOfSquares(n, values); }
double SumOfSquaresF64(int64_t n, const double* values) { return SumOfSquares(n, values); }
void AdamWF32(int64_t n, const AdamWCoefficients& step, const float* gradient, float* weight,
              float* m, float* v, float* average) {
  AdamW(n, step, gradient, weight, m, v, average);
}
void AdamWF64(int64_t n, const AdamWCoefficients& step, const double* gradient, double* weight,
              double* m, double* v, double* average) {
  AdamW(n, step, gradient, weight, m, v, average);
}

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

#define HYDRAMIX_EXPORT_ADAMW(T, name)                                                        \
  HWY_EXPORT(SumOfSquares##name);                                                             \
  HWY_EXPORT(AdamW##name);                                                                    \
  template <>                                                                                 \
  double sum_of_squares<T>(int64_t n, const T* values) {                                      \
    return HWY_DYNAMIC_DISPATCH(SumOfSquares##name)(n, values);                               \
  }                                                                                           \
  template <>                                                                                 \
  void adamw<T>(int64_t n, const AdamWCoefficients& step, const T* gradient, T* weight, T* m, \
                T* v, T* average) {                                                           \
    HWY_DYNAMIC_DISPATCH(AdamW##name)(n, step, gradient, weight, m, v, average);              \
  }
HYDRAMIX_EXPORT_ADAMW(float, F32)
HYDRAMIX_EXPORT_ADAMW(double, F64)

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
