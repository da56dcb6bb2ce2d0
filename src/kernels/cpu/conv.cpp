// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/conv.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/conv.cpp"
#include <hwy/foreach_target.h>

#include <hwy/aligned_allocator.h>

#include "kernels/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

// bias + sum_k weight_k x[t + k - centre] for the vector of channels from c.
template <typename S, class D, typename T = Arithmetic<S>>
HWY_INLINE hn::Vec<D> Convolve(D d, const ConvShape& s, const ConvBlock& block, const S* x,
                               int64_t x_row, const T* weight, const T* bias, int64_t t, int64_t c,
                               int64_t count) {
  auto sum = bias == nullptr ? hn::Zero(d) : LoadN(d, bias + c, count);
  const int64_t from = HWY_MAX(int64_t{0}, block.first + s.centre - t);
  const int64_t to = HWY_MIN(s.K, block.last + s.centre - t);
  for (int64_t k = from; k < to; ++k)
    sum = hn::MulAdd(LoadN(d, weight + k * s.C + c, count),
                     LoadN(d, x + (t + k - s.centre) * x_row + c, count), sum);
  return sum;
}

// Channels are taken in runs: short enough that the K rows of a run stay in the first cache while
// the tokens pass, long enough that memory is read in runs of whole lines.
constexpr int64_t kForwardRun = 256, kBackwardRun = 64;

template <typename S, typename T = Arithmetic<S>>
void ConvForward(const ConvShape& s, const ConvBlock& block, const S* x, int64_t x_row,
                 const T* weight, const T* bias, S* y, int64_t y_row) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t run = 0; run < s.C; run += kForwardRun)
    for (int64_t t = block.begin; t < block.end; ++t)
      for (int64_t c = run; c < HWY_MIN(run + kForwardRun, s.C); c += lanes) {
        const int64_t count = s.C - c;
        const auto u = Convolve<S>(d, s, block, x, x_row, weight, bias, t, c, count);
        auto v = u;
        if (c < s.silu) {
          v = hn::Mul(u, Sigmoid(d, u));
          if (c + lanes > s.silu)  // channels on both sides of the border share a vector
            v = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(s.silu - c)), v, u);
        }
        StoreN(v, d, y + t * y_row + c, count);
      }
}

template <typename S, typename T = Arithmetic<S>>
void ConvBackward(const ConvShape& s, const ConvBlock& block, const S* x, int64_t x_row,
                  const T* weight, const T* bias, const S* dy, int64_t dy_row, S* dx,
                  int64_t dx_row, T* dweight) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  const auto one = hn::Set(d, T{1});
  // Outputs that read this block's inputs: their gradients before SiLU are needed too.
  const int64_t first = HWY_MAX(block.first, block.begin + s.centre - (s.K - 1));
  const int64_t last = HWY_MIN(block.last, block.end + s.centre);
  const auto memory = hwy::AllocateAligned<T>(static_cast<size_t>((last - first) * kBackwardRun));
  T* du = memory.get();  // (last - first, run)
  for (int64_t run = 0; run < s.C; run += kBackwardRun) {
    const int64_t end = HWY_MIN(run + kBackwardRun, s.C);
    for (int64_t t = first; t < last; ++t)
      for (int64_t c = run; c < end; c += lanes) {
        const int64_t count = s.C - c;
        auto g = LoadN(d, dy + t * dy_row + c, count);
        if (c < s.silu) {
          const auto u = Convolve<S>(d, s, block, x, x_row, weight, bias, t, c, count);
          const auto sigmoid = Sigmoid(d, u);
          const auto slope = hn::Mul(sigmoid, hn::MulAdd(u, hn::Sub(one, sigmoid), one));
          const auto scaled = hn::Mul(g, slope);
          g = c + lanes <= s.silu
                  ? scaled
                  : hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(s.silu - c)), scaled, g);
        }
        hn::Store(g, d, du + (t - first) * kBackwardRun + c - run);
      }
    for (int64_t t = block.begin; t < block.end; ++t) {
      // x[t] was read by outputs t - k + centre.
      const int64_t from = HWY_MAX(int64_t{0}, t + s.centre - last + 1);
      const int64_t to = HWY_MIN(s.K, t + s.centre - first + 1);
      for (int64_t c = run; c < end; c += lanes) {
        auto sum = hn::Zero(d);
        for (int64_t k = from; k < to; ++k)
          sum = hn::MulAdd(LoadN(d, weight + k * s.C + c, s.C - c),
                           hn::Load(d, du + (t - k + s.centre - first) * kBackwardRun + c - run),
                           sum);
        StoreN(sum, d, dx + t * dx_row + c, s.C - c);
      }
    }
    for (int64_t c = run; c < end; c += lanes) {
      const int64_t count = s.C - c;
      const auto g = [&](int64_t t) HWY_ATTR {
        return hn::Load(d, du + (t - first) * kBackwardRun + c - run);
      };
      for (int64_t k = 0; k < s.K; ++k) {
        auto sum = hn::Zero(d);
        const int64_t from = HWY_MAX(block.begin, block.first + s.centre - k);
        const int64_t to = HWY_MIN(block.end, block.last + s.centre - k);
        for (int64_t t = from; t < to; ++t)
          sum = hn::MulAdd(g(t), LoadN(d, x + (t + k - s.centre) * x_row + c, count), sum);
        StoreN(sum, d, dweight + k * s.C + c, count);
      }
      auto sum = hn::Zero(d);
      for (int64_t t = block.begin; t < block.end; ++t) sum = hn::Add(sum, g(t));
      StoreN(sum, d, dweight + s.K * s.C + c, count);
    }
  }
}

#define HYDRAMIX_CONV(S, name)                                                                   \
  void ConvForward##name(const ConvShape& s, const ConvBlock& block, const S* x, int64_t x_row,  \
                         const Arithmetic<S>* weight, const Arithmetic<S>* bias, S* y,           \
                         int64_t y_row) {                                                        \
    ConvForward<S>(s, block, x, x_row, weight, bias, y, y_row);                                  \
  }                                                                                              \
  void ConvBackward##name(const ConvShape& s, const ConvBlock& block, const S* x, int64_t x_row, \
                          const Arithmetic<S>* weight, const Arithmetic<S>* bias, const S* dy,   \
                          int64_t dy_row, S* dx, int64_t dx_row, Arithmetic<S>* dweight) {       \
    ConvBackward<S>(s, block, x, x_row, weight, bias, dy, dy_row, dx, dx_row, dweight);          \
  }
HYDRAMIX_CONV(float, F32)
HYDRAMIX_CONV(double, F64)
HYDRAMIX_CONV(BFloat16, BF16)

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

#define HYDRAMIX_EXPORT_CONV(S, name)                                                          \
  HWY_EXPORT(ConvForward##name);                                                               \
  HWY_EXPORT(ConvBackward##name);                                                              \
  template <>                                                                                  \
  void conv_forward<S>(const ConvShape& s, const ConvBlock& block, const S* x, int64_t x_row,  \
                       const Arithmetic<S>* weight, const Arithmetic<S>* bias, S* y,           \
                       int64_t y_row) {                                                        \
    HWY_DYNAMIC_DISPATCH(ConvForward##name)(s, block, x, x_row, weight, bias, y, y_row);       \
  }                                                                                            \
  template <>                                                                                  \
  void conv_backward<S>(const ConvShape& s, const ConvBlock& block, const S* x, int64_t x_row, \
                        const Arithmetic<S>* weight, const Arithmetic<S>* bias, const S* dy,   \
                        int64_t dy_row, S* dx, int64_t dx_row, Arithmetic<S>* dweight) {       \
    HWY_DYNAMIC_DISPATCH(ConvBackward##name)                                                   \
    (s, block, x, x_row, weight, bias, dy, dy_row, dx, dx_row, dweight);                       \
  }
HYDRAMIX_EXPORT_CONV(float, F32)
HYDRAMIX_EXPORT_CONV(double, F64)
HYDRAMIX_EXPORT_CONV(BFloat16, BF16)

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
