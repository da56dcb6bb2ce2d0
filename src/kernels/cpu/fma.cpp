// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/fma.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fma.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/decay-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

double FusedMultiplyAdds(int64_t rounds) {
  // Two units with a latency of four cycles need eight chains; sixteen registers hold twelve.
  constexpr int kChains = 12;
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = hn::Set(d, 1.0f + static_cast<float>(i));
  const auto factor = hn::Set(d, 0.999f), term = hn::Set(d, 0.001f);  // sums stay near 1
  for (int64_t round = 0; round < rounds; ++round) {
    HWY_UNROLL(12)
    for (int i = 0; i < kChains; ++i) sum[i] = hn::MulAdd(sum[i], factor, term);
  }
  for (int i = 1; i < kChains; ++i) sum[0] = hn::Add(sum[0], sum[i]);
  volatile float used = hn::GetLane(sum[0]);  // otherwise the compiler removes the loop
  static_cast<void>(used);
  return 2.0 * kChains * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(d));
}

double Exponentials(int64_t rounds) {
  constexpr int kChains = 12;
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> step[kChains];
  for (int i = 0; i < kChains; ++i) step[i] = hn::Set(d, 0.1f * static_cast<float>(i));
  const auto rate = hn::Set(d, -1.0f);
  for (int64_t round = 0; round < rounds; ++round) {
    HWY_UNROLL(12)
    for (int i = 0; i < kChains; ++i) step[i] = Decay(d, step[i], rate);
  }
  for (int i = 1; i < kChains; ++i) step[0] = hn::Add(step[0], step[i]);
  volatile float used = hn::GetLane(step[0]);
  static_cast<void>(used);
  return kChains * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(d));
}

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

HWY_EXPORT(FusedMultiplyAdds);
double fused_multiply_adds(int64_t rounds) {
  return HWY_DYNAMIC_DISPATCH(FusedMultiplyAdds)(rounds);
}

HWY_EXPORT(Exponentials);
double exponentials(int64_t rounds) { return HWY_DYNAMIC_DISPATCH(Exponentials)(rounds); }

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
