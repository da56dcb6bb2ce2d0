// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/narrow_linear.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/narrow_linear.cpp"
#include <hwy/foreach_target.h>

#include <hwy/aligned_allocator.h>

#include "kernels/cpu/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

template <typename S, typename T = Arithmetic<S>>
void NarrowLinear(int64_t rows, int64_t C, int64_t outputs, const S* x, int64_t x_row,
                  const T* weight, const T* bias, T* y) {
  constexpr int64_t kRun = 256;  // channels whose weights stay in the first cache
  const hn::ScalableTag<T> d;
  const int64_t n = (outputs + kNarrowPad - 1) / kNarrowPad * kNarrowPad;
  const auto memory = hwy::AllocateAligned<T>(static_cast<size_t>(kNarrowRows * (n + kRun)));
  T *sums = memory.get(), *wide = sums + kNarrowRows * n;
  for (int64_t c = 0; c < C; c += kRun) {
    const int64_t run = HWY_MIN(kRun, C - c);
    Entries<T> entries{wide, kRun, 1};
    if constexpr (std::is_same_v<S, T>) {
      entries = {x + c, x_row, 1};
    } else {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < run; ++i) wide[r * kRun + i] = widen(x[r * x_row + c + i]);
    }
    Ahead ahead(96);  // all rows of the next run
    if (c + run < C) {
      constexpr int64_t kSize = sizeof(S);
      ahead.Want(x + c + run, rows, x_row * kSize, HWY_MIN(kRun, C - c - run) * kSize);
    }
    Gemm(d, rows, n, run, entries, weight + c * n, n,
         {.c = sums, .ld = n, .from = c > 0 ? sums : nullptr}, &ahead);
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < outputs; ++o) y[r * outputs + o] = sums[r * n + o] + bias[o];
}

#define HYDRAMIX_NARROW(S, name)                                                               \
  void NarrowLinear##name(int64_t rows, int64_t C, int64_t outputs, const S* x, int64_t x_row, \
                          const Arithmetic<S>* weight, const Arithmetic<S>* bias,              \
                          Arithmetic<S>* y) {                                                  \
    NarrowLinear<S>(rows, C, outputs, x, x_row, weight, bias, y);                              \
  }
HYDRAMIX_NARROW(float, F32)
HYDRAMIX_NARROW(double, F64)
HYDRAMIX_NARROW(BFloat16, BF16)

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

#define HYDRAMIX_EXPORT_NARROW(S, name)                                                      \
  HWY_EXPORT(NarrowLinear##name);                                                            \
  template <>                                                                                \
  void narrow_linear<S>(int64_t rows, int64_t C, int64_t outputs, const S* x, int64_t x_row, \
                        const Arithmetic<S>* weight, const Arithmetic<S>* bias,              \
                        Arithmetic<S>* y) {                                                  \
    HWY_DYNAMIC_DISPATCH(NarrowLinear##name)(rows, C, outputs, x, x_row, weight, bias, y);   \
  }
HYDRAMIX_EXPORT_NARROW(float, F32)
HYDRAMIX_EXPORT_NARROW(double, F64)
HYDRAMIX_EXPORT_NARROW(BFloat16, BF16)

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
