// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/selective_scan.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/selective_scan.cpp"
#include <hwy/foreach_target.h>

#include <cstring>

#include "kernels/cpu/rows-inl.h"
#include "kernels/cpu/workspace.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

// Lanes of one vector: its first channel, and how many of them there are.
struct SelectiveLanes {
  int64_t channel, count;
};

// 2^v for v <= 0. In float32 to 2e-7, zero below -126: about 13 operations, of which Highway's
// Exp() has twice as many. v plus a large number has the nearest integer n in its last bits, where
// a shift makes it the exponent of 2^n.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> PowerOfTwo(D d, hn::Vec<D> v) {
  if constexpr (sizeof(T) == 8) {
    return hn::Exp(d, hn::Mul(v, hn::Set(d, 0.69314718055994530942)));
  } else {
    const hn::RebindToUnsigned<D> bits;
    const auto large = hn::Set(d, 12582912.0f + 127.0f);  // 3 2^22, and the bias of exponents
    const auto shifted = hn::Add(v, large);
    const auto r = hn::Sub(v, hn::Sub(shifted, large));  // in [-1/2, 1/2]
    auto p = hn::Set(d, 1.5403530e-4f);                  // ln(2)^k / k!: the rest is below 1.3e-7
    for (const float c :
         {1.3333558e-3f, 9.6181291e-3f, 5.5504109e-2f, 2.4022651e-1f, 6.9314718e-1f, 1.0f})
      p = hn::MulAdd(p, r, hn::Set(d, c));
    const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits, shifted)));
    return hn::IfThenElseZero(hn::Ge(v, hn::Set(d, -126.0f)), hn::Mul(p, power));
  }
}

template <typename T>
HWY_INLINE const T* TokenRow(const StridedRows<const T>& rows, int64_t t) {
  return rows.data + t * rows.stride;
}

// One vector of channels over the places [begin, begin + rows). h (N, lanes) is the state before
// and after.
template <typename T>
HWY_NOINLINE void SelectiveWalk(const SelectiveForward<T>& p, int64_t begin, int64_t rows,
                                SelectiveLanes lanes_of, T* HWY_RESTRICT h) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d), N = p.shape.N, C = p.shape.padded(), at = lanes_of.channel;
  const T* HWY_RESTRICT A = p.in.A + at;
  const auto skip = hn::Load(d, p.in.D + at);
  for (int64_t t = begin; t < begin + rows; ++t) {
    const auto x = LoadN(d, TokenRow(p.in.x, t) + at, lanes_of.count);
    const auto dt = LoadN(d, TokenRow(p.in.dt, t) + at, lanes_of.count);
    const T *HWY_RESTRICT b = TokenRow(p.in.b, t), *HWY_RESTRICT c = TokenRow(p.in.c, t);
    const auto dx = hn::Mul(dt, x);
    auto y = hn::Mul(skip, x);
    for (int64_t n = 0; n < N; ++n) {
      const auto decay = PowerOfTwo(d, hn::Mul(dt, hn::Load(d, A + n * C)));
      const auto state =
          hn::MulAdd(decay, hn::Load(d, h + n * lanes), hn::Mul(dx, hn::Set(d, b[n])));
      hn::Store(state, d, h + n * lanes);
      y = hn::MulAdd(hn::Set(d, c[n]), state, y);
    }
    StoreN(y, d, p.y.data + t * p.y.stride + at, lanes_of.count);
  }
}

template <typename T>
void SelectiveForwardTask(const SelectiveForward<T>& p, const SelectiveRange& range, int64_t task) {
  const SelectiveShape& s = p.shape;
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d), first = task * SelectiveShape::kTask;
  const int64_t end = HWY_MIN(first + SelectiveShape::kTask, s.C);
  const auto memory = make_workspace<T>(SelectiveShape::kTask * s.N);
  std::memset(memory.get(), 0, sizeof(T) * static_cast<size_t>(SelectiveShape::kTask * s.N));
  int64_t k = range.first_chunk;
  for (int64_t begin = range.begin; begin < range.end; begin += s.tile, ++k)
    for (int64_t at = first; at < end; at += lanes) {
      T* h = memory.get() + (at - first) * s.N;  // (N, lanes)
      if (p.states != nullptr)
        for (int64_t n = 0; n < s.N; ++n)
          hn::Store(hn::Load(d, h + n * lanes), d, p.states + (k * s.N + n) * s.padded() + at);
      SelectiveWalk(p, begin, HWY_MIN(s.tile, range.end - begin), {at, HWY_MIN(lanes, s.C - at)},
                    h);
    }
}

// Scratch memory of a backward task. Rows have one vector per place of a chunk.
template <typename T>
struct SelectiveScratch {
  T *dt, *dy, *dx;  // (vectors, tile, lanes); dx is dt x
  T *ddx, *ddt;     // likewise: their gradients
  T *h, *decay;     // (2, tile + 1, lanes), (2, tile, lanes): of one state and two vectors
  T *db, *dc;       // (tile, lanes): of one state, summed over the vectors
  T *b, *c;         // (N, tile)
  T *dh, *dA;       // (N, channels): run on from chunk to chunk
  T* dD;            // (channels), likewise
};

// State n of V vectors of channels, over a chunk: the states forwards, their gradients backwards.
// `before` are the states that enter, (channels) or null; at is the first channel of the task.
template <int V, typename T>
HWY_INLINE void SelectiveState(const SelectiveBackward<T>& p, int64_t rows, int64_t n, int64_t at,
                               const T* before, int64_t vector, const SelectiveScratch<T>& work) {
  const hn::ScalableTag<T> d;
  using Vector = hn::Vec<decltype(d)>;
  const int64_t lanes = hn::Lanes(d), tile = p.shape.tile;
  Vector rate[V], state[V], g[V], drate[V];
  const T *HWY_RESTRICT b = work.b + n * tile, *HWY_RESTRICT c = work.c + n * tile;
  const int64_t channel = vector * lanes, sums = n * SelectiveShape::kTask + channel;
  HWY_UNROLL(8)
  for (int i = 0; i < V; ++i) {
    rate[i] = hn::Load(d, p.in.A + n * p.shape.padded() + at + channel + i * lanes);
    state[i] = before == nullptr ? hn::Zero(d) : hn::Load(d, before + channel + i * lanes);
    g[i] = hn::Load(d, work.dh + sums + i * lanes);
    drate[i] = hn::Load(d, work.dA + sums + i * lanes);
    hn::Store(state[i], d, work.h + i * (tile + 1) * lanes);
  }
  for (int64_t t = 0; t < rows; ++t) {
    const auto key = hn::Set(d, b[t]);
    HWY_UNROLL(8)
    for (int i = 0; i < V; ++i) {
      const int64_t row = ((vector + i) * tile + t) * lanes;
      const auto decay = PowerOfTwo(d, hn::Mul(hn::Load(d, work.dt + row), rate[i]));
      state[i] = hn::MulAdd(decay, state[i], hn::Mul(hn::Load(d, work.dx + row), key));
      hn::Store(decay, d, work.decay + (i * tile + t) * lanes);
      hn::Store(state[i], d, work.h + (i * (tile + 1) + t + 1) * lanes);
    }
  }
  for (int64_t t = rows - 1; t >= 0; --t) {
    const auto key = hn::Set(d, b[t]), query = hn::Set(d, c[t]);
    auto db = hn::Load(d, work.db + t * lanes), dc = hn::Load(d, work.dc + t * lanes);
    HWY_UNROLL(8)
    for (int i = 0; i < V; ++i) {
      const int64_t row = ((vector + i) * tile + t) * lanes;
      const auto dy = hn::Load(d, work.dy + row);
      g[i] = hn::MulAdd(query, dy, g[i]);
      dc = hn::MulAdd(dy, state[i], dc);
      db = hn::MulAdd(g[i], hn::Load(d, work.dx + row), db);
      hn::Store(hn::MulAdd(g[i], key, hn::Load(d, work.ddx + row)), d, work.ddx + row);
      g[i] = hn::Mul(g[i], hn::Load(d, work.decay + (i * tile + t) * lanes));
      state[i] = hn::Load(d, work.h + (i * (tile + 1) + t) * lanes);
      const auto through = hn::Mul(g[i], state[i]);
      hn::Store(hn::MulAdd(through, rate[i], hn::Load(d, work.ddt + row)), d, work.ddt + row);
      drate[i] = hn::MulAdd(through, hn::Load(d, work.dt + row), drate[i]);
    }
    hn::Store(db, d, work.db + t * lanes);
    hn::Store(dc, d, work.dc + t * lanes);
  }
  HWY_UNROLL(8)
  for (int i = 0; i < V; ++i) {
    hn::Store(g[i], d, work.dh + sums + i * lanes);
    hn::Store(drate[i], d, work.dA + sums + i * lanes);
  }
}

// The tokens of a chunk: b and c transposed, dt, dy and dt x vector by vector; and dD.
template <typename T>
HWY_NOINLINE void SelectiveLoad(const SelectiveBackward<T>& p, int64_t begin, int64_t rows,
                                int64_t first, int64_t vectors, const SelectiveScratch<T>& work) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d), tile = p.shape.tile, N = p.shape.N;
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t n = 0; n < N; ++n) {
      work.b[n * tile + t] = TokenRow(p.in.b, begin + t)[n];
      work.c[n * tile + t] = TokenRow(p.in.c, begin + t)[n];
    }
  for (int64_t v = 0; v < vectors; ++v) {
    const int64_t at = first + v * lanes, count = HWY_MIN(lanes, p.shape.C - at);
    auto dskip = hn::Load(d, work.dD + v * lanes);
    for (int64_t t = 0; t < rows; ++t) {
      const int64_t row = (v * tile + t) * lanes;
      const auto x = LoadN(d, TokenRow(p.in.x, begin + t) + at, count);
      const auto dt = LoadN(d, TokenRow(p.in.dt, begin + t) + at, count);
      const auto dy = LoadN(d, TokenRow(p.dy, begin + t) + at, count);
      hn::Store(dt, d, work.dt + row);
      hn::Store(dy, d, work.dy + row);
      hn::Store(hn::Mul(dt, x), d, work.dx + row);
      hn::Store(hn::Zero(d), d, work.ddx + row);
      hn::Store(hn::Zero(d), d, work.ddt + row);
      dskip = hn::MulAdd(dy, x, dskip);
    }
    hn::Store(dskip, d, work.dD + v * lanes);
  }
}

// dx and ddt of a chunk.
template <typename T>
HWY_NOINLINE void SelectiveStore(const SelectiveBackward<T>& p, int64_t begin, int64_t rows,
                                 int64_t first, int64_t vectors, const SelectiveScratch<T>& work) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d), tile = p.shape.tile;
  const auto unit = hn::Set(d, static_cast<T>(0.69314718055994530942));  // of A: log(2)
  for (int64_t v = 0; v < vectors; ++v) {
    const int64_t at = first + v * lanes, count = HWY_MIN(lanes, p.shape.C - at);
    const auto skip = hn::Load(d, p.in.D + at);
    for (int64_t t = 0; t < rows; ++t) {
      const int64_t row = (v * tile + t) * lanes, token = begin + t;
      const auto x = LoadN(d, TokenRow(p.in.x, token) + at, count);
      const auto ddx = hn::Load(d, work.ddx + row);
      StoreN(hn::MulAdd(ddx, hn::Load(d, work.dt + row), hn::Mul(skip, hn::Load(d, work.dy + row))),
             d, p.dx.data + token * p.dx.stride + at, count);
      StoreN(hn::MulAdd(ddx, x, hn::Mul(unit, hn::Load(d, work.ddt + row))), d,
             p.ddt.data + token * p.ddt.stride + at, count);
    }
  }
}

template <typename T>
void SelectiveBackwardTask(const SelectiveBackward<T>& p, const SelectiveRange& range,
                           int64_t task) {
  const SelectiveShape& s = p.shape;
  const hn::ScalableTag<T> d;
  constexpr int64_t kTask = SelectiveShape::kTask;
  const int64_t lanes = hn::Lanes(d), N = s.N, first = task * kTask;
  const int64_t vectors = (HWY_MIN(kTask, s.C - first) + lanes - 1) / lanes;
  const int64_t row = s.tile * lanes, padded = (N * s.tile + 15) / 16 * 16;
  const int64_t size = 5 * s.tile * kTask + 6 * row + 2 * lanes + 2 * padded + (2 * N + 1) * kTask;
  const auto memory = make_workspace<T>(size);
  std::memset(memory.get(), 0, sizeof(T) * static_cast<size_t>(size));
  T* from = memory.get();
  const auto take = [&](int64_t count) {
    T* piece = from;
    from += count;
    return piece;
  };
  SelectiveScratch<T> work;
  work.dt = take(s.tile * kTask), work.dy = take(s.tile * kTask), work.dx = take(s.tile * kTask);
  work.ddx = take(s.tile * kTask), work.ddt = take(s.tile * kTask);
  work.h = take(2 * (row + lanes)), work.decay = take(2 * row);
  work.db = take(row), work.dc = take(row);
  work.b = take(padded), work.c = take(padded);
  work.dh = take(N * kTask), work.dA = take(N * kTask), work.dD = take(kTask);

  const int64_t count = (range.end - range.begin + s.tile - 1) / s.tile;
  for (int64_t i = count - 1; i >= 0; --i) {
    const int64_t begin = range.begin + i * s.tile, k = range.first_chunk + i;
    const int64_t rows = HWY_MIN(s.tile, range.end - begin);
    SelectiveLoad(p, begin, rows, first, vectors, work);
    for (int64_t n = 0; n < N; ++n) {
      const T* before = i == 0 ? nullptr : p.states + (k * N + n) * s.padded() + first;
      std::memset(work.db, 0, sizeof(T) * static_cast<size_t>(row));
      std::memset(work.dc, 0, sizeof(T) * static_cast<size_t>(row));
      int64_t v = 0;
      for (; v + 2 <= vectors; v += 2) SelectiveState<2>(p, rows, n, first, before, v, work);
      for (; v < vectors; ++v) SelectiveState<1>(p, rows, n, first, before, v, work);
      for (int64_t t = 0; t < rows; ++t) {
        const int64_t to = (task * p.n + begin + t) * N + n;
        p.db[to] = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, work.db + t * lanes)));
        p.dc[to] = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, work.dc + t * lanes)));
      }
    }
    SelectiveStore(p, begin, rows, first, vectors, work);
  }
  for (int64_t c = 0; c < kTask; c += lanes) {
    for (int64_t n = 0; n < N; ++n)
      hn::Store(hn::Load(d, work.dA + n * kTask + c), d,
                p.dA + (range.sequence * N + n) * s.padded() + first + c);
    hn::Store(hn::Load(d, work.dD + c), d, p.dD + range.sequence * s.padded() + first + c);
  }
}

#define HYDRAMIX_SELECTIVE_SCAN(T, name)                                                   \
  void SelectiveForward##name(const SelectiveForward<T>& p, const SelectiveRange& range,   \
                              int64_t task) {                                              \
    SelectiveForwardTask(p, range, task);                                                  \
  }                                                                                        \
  void SelectiveBackward##name(const SelectiveBackward<T>& p, const SelectiveRange& range, \
                               int64_t task) {                                             \
    SelectiveBackwardTask(p, range, task);                                                 \
  }
HYDRAMIX_SELECTIVE_SCAN(float, F32)
HYDRAMIX_SELECTIVE_SCAN(double, F64)

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

#define HYDRAMIX_EXPORT_SELECTIVE_SCAN(T, name)                                               \
  HWY_EXPORT(SelectiveForward##name);                                                         \
  HWY_EXPORT(SelectiveBackward##name);                                                        \
  template <>                                                                                 \
  void selective_scan_forward<T>(const SelectiveForward<T>& p, const SelectiveRange& range,   \
                                 int64_t task) {                                              \
    HWY_DYNAMIC_DISPATCH(SelectiveForward##name)(p, range, task);                             \
  }                                                                                           \
  template <>                                                                                 \
  void selective_scan_backward<T>(const SelectiveBackward<T>& p, const SelectiveRange& range, \
                                  int64_t task) {                                             \
    HWY_DYNAMIC_DISPATCH(SelectiveBackward##name)(p, range, task);                            \
  }
HYDRAMIX_EXPORT_SELECTIVE_SCAN(float, F32)
HYDRAMIX_EXPORT_SELECTIVE_SCAN(double, F64)

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
