// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/narrow_linear.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/narrow_linear.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/gemm-inl.h"
#include "kernels/cpu/workspace.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

template <typename S, typename T = Arithmetic<S>>
void NarrowLinear(const NarrowProduct<S>& p, int64_t task) {
  constexpr int64_t kRun = 256;  // channels whose weights stay in the L1 cache
  const hn::ScalableTag<T> d;
  const int64_t first = task * kNarrowRows, rows = HWY_MIN(kNarrowRows, p.rows - first);
  const int64_t C = p.C, outputs = p.outputs, x_row = p.x.stride;
  const S* x = p.x.data + first * x_row;
  const T *weight = p.weight, *bias = p.bias;
  T* y = p.y + first * outputs;
  const int64_t n = (outputs + kNarrowPad - 1) / kNarrowPad * kNarrowPad;
  const auto memory = make_workspace<T>(kNarrowRows * (n + kRun));
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

#define HYDRAMIX_NARROW(S, name) \
  void NarrowLinear##name(const NarrowProduct<S>& p, int64_t task) { NarrowLinear(p, task); }
HYDRAMIX_NARROW(float, F32)
HYDRAMIX_NARROW(double, F64)
HYDRAMIX_NARROW(BFloat16, BF16)

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

#define HYDRAMIX_EXPORT_NARROW(S, name)                            \
  HWY_EXPORT(NarrowLinear##name);                                  \
  template <>                                                      \
  void narrow_linear<S>(const NarrowProduct<S>& p, int64_t task) { \
    HWY_DYNAMIC_DISPATCH(NarrowLinear##name)(p, task);             \
  }
HYDRAMIX_EXPORT_NARROW(float, F32)
HYDRAMIX_EXPORT_NARROW(double, F64)
HYDRAMIX_EXPORT_NARROW(BFloat16, BF16)

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
