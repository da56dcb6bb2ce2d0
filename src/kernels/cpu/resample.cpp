// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/resample.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/resample.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE uint8_t ClampedByte(int32_t sum) {
  const int32_t value = sum >> kResampleBits;
  return static_cast<uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

// A vector holds red, green, blue and the red of the next pixel, which the next store overwrites.
void ResampleColumns(const uint8_t* in, const ResampleTaps& taps, uint8_t* out) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t x = 0; x < taps.outputs; ++x)
    for (int64_t c = 0; c < 3; ++c) {
      int32_t sum = 1 << (kResampleBits - 1);
      for (int64_t k = 0; k < taps.count[x]; ++k)
        sum += taps.weights[x * taps.stride + k] * in[3 * (taps.first[x] + k) + c];
      out[3 * x + c] = ClampedByte(sum);
    }
#else
  const hn::FixedTag<int32_t, 4> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const hn::Rebind<int16_t, decltype(d)> shorts;
  const auto half = hn::Set(d, 1 << (kResampleBits - 1));
  for (int64_t x = 0; x < taps.outputs; ++x) {
    const uint8_t* from = in + 3 * static_cast<int64_t>(taps.first[x]);
    const int32_t* weights = taps.weights + x * taps.stride;
    auto sum = half;
    for (int64_t k = 0; k < taps.count[x]; ++k)
      sum = hn::Add(
          sum, hn::Mul(hn::PromoteTo(d, hn::LoadU(bytes, from + 3 * k)), hn::Set(d, weights[k])));
    const auto value = hn::DemoteTo(shorts, hn::ShiftRight<kResampleBits>(sum));
    hn::StoreU(hn::DemoteTo(bytes, value), bytes, out + 3 * x);
  }
#endif
}

void ResampleRows(const uint8_t* in, int64_t bytes, const int32_t* weights, int64_t count,
                  uint8_t* out) {
  const hn::ScalableTag<int32_t> d;
  const hn::Rebind<uint8_t, decltype(d)> narrow;
  const hn::Rebind<int16_t, decltype(d)> shorts;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto half = hn::Set(d, 1 << (kResampleBits - 1));
  int64_t i = 0;
  for (; i + lanes <= bytes; i += lanes) {
    auto sum = half;
    for (int64_t k = 0; k < count; ++k)
      sum = hn::Add(sum, hn::Mul(hn::PromoteTo(d, hn::LoadU(narrow, in + k * bytes + i)),
                                 hn::Set(d, weights[k])));
    const auto value = hn::DemoteTo(shorts, hn::ShiftRight<kResampleBits>(sum));
    hn::StoreU(hn::DemoteTo(narrow, value), narrow, out + i);
  }
  for (; i < bytes; ++i) {
    int32_t sum = 1 << (kResampleBits - 1);
    for (int64_t k = 0; k < count; ++k) sum += weights[k] * in[k * bytes + i];
    out[i] = ClampedByte(sum);
  }
}

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

HWY_EXPORT(ResampleColumns);
HWY_EXPORT(ResampleRows);

void resample_columns(const uint8_t* in, const ResampleTaps& taps, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(ResampleColumns)(in, taps, out);
}
void resample_rows(const uint8_t* in, int64_t bytes, const int32_t* weights, int64_t count,
                   uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(ResampleRows)(in, bytes, weights, count, out);
}

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
