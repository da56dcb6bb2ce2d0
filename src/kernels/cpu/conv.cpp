// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/conv.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/conv.cpp"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>

#include "kernels/cpu/rows-inl.h"
#include "kernels/cpu/workspace.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

// bias + sum_k weight_k x[t + k - centre] for the vector of channels from c. P is ConvForward or
// ConvBackward.
template <class D, class P>
HWY_INLINE hn::Vec<D> Convolve(D d, const P& p, const ConvBlock& block, int64_t t, int64_t c) {
  const ConvShape& s = p.shape;
  const int64_t count = s.C - c;
  auto sum = p.bias == nullptr ? hn::Zero(d) : LoadN(d, p.bias + c, count);
  const int64_t from = HWY_MAX(int64_t{0}, block.first + s.centre - t);
  const int64_t to = HWY_MIN(s.K, block.last + s.centre - t);
  for (int64_t k = from; k < to; ++k)
    sum = hn::MulAdd(LoadN(d, p.weight + k * s.C + c, count),
                     LoadN(d, p.x.data + (t + k - s.centre) * p.x.stride + c, count), sum);
  return sum;
}

// Channels are processed in runs: short enough that the K rows of a run stay in the L1 cache while
// the loop passes over tokens, long enough to read whole cache lines.
constexpr int64_t kForwardRun = 256, kBackwardRun = 64;

// SiLU on those channels of a vector, from c on, that have it. Channels with and without SiLU may
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
template <int K, class D, typename S>
HWY_INLINE void ConvolveInside(D d, const ConvForward<S>& p, int64_t t, int64_t c) {
  const ConvShape& s = p.shape;
  const int64_t lanes = hn::Lanes(d);
  hn::Vec<D> taps[K], sums[kTokens];
  HWY_UNROLL(8)
  for (int k = 0; k < K; ++k) taps[k] = hn::LoadU(d, p.weight + k * s.C + c);
  HWY_UNROLL(8)
  for (int r = 0; r < kTokens; ++r)
    sums[r] = p.bias == nullptr ? hn::Zero(d) : hn::LoadU(d, p.bias + c);
  const S* from = p.x.data + (t - s.centre) * p.x.stride + c;
  HWY_UNROLL(16)
  for (int row = 0; row < K + kTokens - 1; ++row) {
    const auto v = LoadN(d, from + row * p.x.stride, lanes);
    HWY_UNROLL(8)
    for (int r = 0; r < kTokens; ++r)
      if (row - r >= 0 && row - r < K) sums[r] = hn::MulAdd(taps[row - r], v, sums[r]);
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kTokens; ++r)
    StoreN(Activate(d, s, c, sums[r]), d, p.y.data + (t + r) * p.y.stride + c, lanes);
}

// ConvolveInside if it is compiled for this width and the tokens and channels are as it needs them.
template <class D, typename S>
HWY_INLINE bool TryConvolveInside(D d, const ConvForward<S>& p, const ConvBlock& block, int64_t t,
                                  int64_t c) {
  const ConvShape& s = p.shape;
  if (s.C - c < static_cast<int64_t>(hn::Lanes(d))) return false;
  if (t - s.centre < block.first || t + kTokens + s.K - 1 - s.centre > block.last) return false;
  switch (s.K) {
    case 3:
      ConvolveInside<3>(d, p, t, c);
      return true;
    case 4:
      ConvolveInside<4>(d, p, t, c);
      return true;
    case 5:
      ConvolveInside<5>(d, p, t, c);
      return true;
    case 7:
      ConvolveInside<7>(d, p, t, c);
      return true;
    default:
      return false;
  }
}

// Rows are prefetched this many tokens ahead: a run of channels is too short for the hardware to
// see that the next token's run follows.
constexpr int64_t kTokensAhead = 8;

// Parameters are passed by value: a vector that is stored may alias whatever a reference refers to.
template <typename S, typename T = Arithmetic<S>>
void RunForward(const ConvForward<S> p, const ConvBlock& block) {
  const ConvShape& s = p.shape;
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t run = 0; run < s.C; run += kForwardRun)
    for (int64_t t0 = block.begin; t0 < block.end; t0 += kTokens) {
      const int64_t tokens = HWY_MIN(int64_t{kTokens}, block.end - t0);
      for (int64_t c = run; c < HWY_MIN(run + kForwardRun, s.C); c += lanes) {
        for (int64_t t = t0 + kTokensAhead; t < t0 + kTokensAhead + kTokens; ++t) {
          hwy::Prefetch(p.x.data + (t + s.centre) * p.x.stride + c);
          hwy::Prefetch(p.y.data + t * p.y.stride + c);
        }
        if (tokens == kTokens && TryConvolveInside(d, p, block, t0, c)) continue;
        for (int64_t t = t0; t < t0 + tokens; ++t)
          StoreN(Activate(d, s, c, Convolve(d, p, block, t, c)), d, p.y.data + t * p.y.stride + c,
                 s.C - c);
      }
    }
}

template <typename S, typename T = Arithmetic<S>>
void RunBackward(const ConvBackward<S> p, const ConvBlock& block, int64_t part) {
  const ConvShape& s = p.shape;
  T* dweight = p.workspace + part * (s.K + 1) * s.C;
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  const auto one = hn::Set(d, T{1});
  // Outputs that read this block's inputs: their gradients before SiLU are needed too.
  const int64_t first = HWY_MAX(block.first, block.begin + s.centre - (s.K - 1));
  const int64_t last = HWY_MIN(block.last, block.end + s.centre);
  const auto memory = make_workspace<T>((last - first) * kBackwardRun);
  T* du = memory.get();  // (last - first, run)
  for (int64_t run = 0; run < s.C; run += kBackwardRun) {
    const int64_t end = HWY_MIN(run + kBackwardRun, s.C);
    for (int64_t t = first; t < last; ++t)
      for (int64_t c = run; c < end; c += lanes) {
        const int64_t count = s.C - c;
        hwy::Prefetch(p.x.data + (t + kTokensAhead + s.centre) * p.x.stride + c);
        hwy::Prefetch(p.dy.data + (t + kTokensAhead) * p.dy.stride + c);
        auto g = LoadN(d, p.dy.data + t * p.dy.stride + c, count);
        if (c < s.silu) {
          const auto u = Convolve(d, p, block, t, c);
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
        hwy::Prefetch(p.dx.data + (t + kTokensAhead) * p.dx.stride + c);
        auto sum = hn::Zero(d);
        for (int64_t k = from; k < to; ++k)
          sum = hn::MulAdd(LoadN(d, p.weight + k * s.C + c, s.C - c),
                           hn::Load(d, du + (t - k + s.centre - first) * kBackwardRun + c - run),
                           sum);
        StoreN(sum, d, p.dx.data + t * p.dx.stride + c, s.C - c);
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
          sum = hn::MulAdd(g(t), LoadN(d, p.x.data + (t + k - s.centre) * p.x.stride + c, count),
                           sum);
        StoreN(sum, d, dweight + k * s.C + c, count);
      }
      auto sum = hn::Zero(d);
      for (int64_t t = block.begin; t < block.end; ++t) sum = hn::Add(sum, g(t));
      StoreN(sum, d, dweight + s.K * s.C + c, count);
    }
  }
}

#define HYDRAMIX_CONV(S, name)                                                              \
  void ConvForward##name(const ConvForward<S>& p, const ConvBlock& block) {                 \
    RunForward(p, block);                                                                   \
  }                                                                                         \
  void ConvBackward##name(const ConvBackward<S>& p, const ConvBlock& block, int64_t part) { \
    RunBackward(p, block, part);                                                            \
  }
HYDRAMIX_CONV(float, F32)
HYDRAMIX_CONV(double, F64)
HYDRAMIX_CONV(BFloat16, BF16)

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

#define HYDRAMIX_EXPORT_CONV(S, name)                                                     \
  HWY_EXPORT(ConvForward##name);                                                          \
  HWY_EXPORT(ConvBackward##name);                                                         \
  template <>                                                                             \
  void conv_forward<S>(const ConvForward<S>& p, const ConvBlock& block) {                 \
    HWY_DYNAMIC_DISPATCH(ConvForward##name)(p, block);                                    \
  }                                                                                       \
  template <>                                                                             \
  void conv_backward<S>(const ConvBackward<S>& p, const ConvBlock& block, int64_t part) { \
    HWY_DYNAMIC_DISPATCH(ConvBackward##name)(p, block, part);                             \
  }
HYDRAMIX_EXPORT_CONV(float, F32)
HYDRAMIX_EXPORT_CONV(double, F64)
HYDRAMIX_EXPORT_CONV(BFloat16, BF16)

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
