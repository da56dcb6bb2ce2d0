// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/conv.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/conv.cpp"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>

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

// SiLU on the channels of a vector from c on that have it; those on both sides of the border may
// share a vector.
template <class D>
HWY_INLINE hn::Vec<D> Activate(D d, const ConvShape& s, int64_t c, hn::Vec<D> u) {
  if (c >= s.silu) return u;
  const auto v = hn::Mul(u, Sigmoid(d, u));
  return c + static_cast<int64_t>(hn::Lanes(d)) <= s.silu
             ? v
             : hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(s.silu - c)), v, u);
}

// kTokens tokens from t on, whose K inputs are all inside the sequence, and a full vector of
// channels: the weights stay in registers, and each input is loaded once.
constexpr int kTokens = 4;
template <int K, typename S, class D, typename T = Arithmetic<S>>
HWY_INLINE void ConvolveInside(D d, const ConvShape& s, const S* x, int64_t x_row, const T* weight,
                               const T* bias, int64_t t, int64_t c, S* y, int64_t y_row) {
  const int64_t lanes = hn::Lanes(d);
  hn::Vec<D> taps[K], sums[kTokens];
  HWY_UNROLL(8)
  for (int k = 0; k < K; ++k) taps[k] = hn::LoadU(d, weight + k * s.C + c);
  HWY_UNROLL(8)
  for (int r = 0; r < kTokens; ++r)
    sums[r] = bias == nullptr ? hn::Zero(d) : hn::LoadU(d, bias + c);
  const S* from = x + (t - s.centre) * x_row + c;
  HWY_UNROLL(16)
  for (int row = 0; row < K + kTokens - 1; ++row) {
    const auto v = LoadN(d, from + row * x_row, lanes);
    HWY_UNROLL(8)
    for (int r = 0; r < kTokens; ++r)
      if (row - r >= 0 && row - r < K) sums[r] = hn::MulAdd(taps[row - r], v, sums[r]);
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kTokens; ++r)
    StoreN(Activate(d, s, c, sums[r]), d, y + (t + r) * y_row + c, lanes);
}

template <typename S, class D, typename T = Arithmetic<S>>
HWY_INLINE bool TryConvolveInside(D d, const ConvShape& s, const ConvBlock& block, const S* x,
                                  int64_t x_row, const T* weight, const T* bias, int64_t t,
                                  int64_t c, S* y, int64_t y_row) {
  if (s.C - c < static_cast<int64_t>(hn::Lanes(d))) return false;
  if (t - s.centre < block.first || t + kTokens + s.K - 1 - s.centre > block.last) return false;
  switch (s.K) {
    case 3:
      ConvolveInside<3>(d, s, x, x_row, weight, bias, t, c, y, y_row);
      return true;
    case 4:
      ConvolveInside<4>(d, s, x, x_row, weight, bias, t, c, y, y_row);
      return true;
    case 5:
      ConvolveInside<5>(d, s, x, x_row, weight, bias, t, c, y, y_row);
      return true;
    case 7:
      ConvolveInside<7>(d, s, x, x_row, weight, bias, t, c, y, y_row);
      return true;
    default:
      return false;
  }
}

// Rows that will be wanted, asked for this many tokens ahead: a run of channels is too short for
// the hardware to notice that the next token's follows.
constexpr int64_t kTokensAhead = 8;

template <typename S, typename T = Arithmetic<S>>
void ConvForward(const ConvShape& s, const ConvBlock& block, const S* x, int64_t x_row,
                 const T* weight, const T* bias, S* y, int64_t y_row) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t run = 0; run < s.C; run += kForwardRun)
    for (int64_t t0 = block.begin; t0 < block.end; t0 += kTokens) {
      const int64_t tokens = HWY_MIN(int64_t{kTokens}, block.end - t0);
      for (int64_t c = run; c < HWY_MIN(run + kForwardRun, s.C); c += lanes) {
        for (int64_t t = t0 + kTokensAhead; t < t0 + kTokensAhead + kTokens; ++t) {
          hwy::Prefetch(x + (t + s.centre) * x_row + c);
          hwy::Prefetch(y + t * y_row + c);
        }
        if (tokens == kTokens &&
            TryConvolveInside<S>(d, s, block, x, x_row, weight, bias, t0, c, y, y_row))
          continue;
        for (int64_t t = t0; t < t0 + tokens; ++t)
          StoreN(Activate(d, s, c, Convolve<S>(d, s, block, x, x_row, weight, bias, t, c, s.C - c)),
                 d, y + t * y_row + c, s.C - c);
      }
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
        hwy::Prefetch(x + (t + kTokensAhead + s.centre) * x_row + c);
        hwy::Prefetch(dy + (t + kTokensAhead) * dy_row + c);
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
        hwy::Prefetch(dx + (t + kTokensAhead) * dx_row + c);
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
