// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gated_scan.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gated_scan.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/lane_sums-inl.h"
#include "kernels/cpu/scan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

constexpr int64_t kBlock = GatedChunkShape::kBlock;
constexpr int kAheadLines = 20;  // with every tile of a product: all of a block's are requested

// Rows of one head, each padded to whole vectors.
template <typename T>
HWY_INLINE void LoadRows(const StridedRows<const T>& from, int64_t first, int64_t rows, int64_t h,
                         int64_t width, T* to) {
  for (int64_t t = 0; t < rows; ++t)
    LoadRow(from.data + (first + t) * from.stride + h * width, width,
            to + t * ChunkShape::padded(width));
}
template <typename T>
HWY_INLINE void StoreRows(const T* from, int64_t first, int64_t rows, int64_t h, int64_t width,
                          const StridedRows<T>& to) {
  for (int64_t t = 0; t < rows; ++t)
    StoreRow(from + t * ChunkShape::padded(width), width,
             to.data + (first + t) * to.stride + h * width);
}

// Prefetches them.
template <typename T>
HWY_INLINE void WantRows(Ahead& ahead, const StridedRows<T>& from, int64_t first, int64_t rows,
                         int64_t h, int64_t width) {
  constexpr int64_t kBytes = sizeof(T);
  ahead.Want(from.data + first * from.stride + h * width, rows, from.stride * kBytes,
             width * kBytes);
}

// to_i = from_i prod_{m <= i} a_m: from the start of the block to position i. to may be from.
template <typename T>
HWY_INLINE void Enter(int64_t rows, int64_t Np, const T* a, const T* from, T* to) {
  ForVectors<T>(Np, [&](auto d, int64_t n) HWY_ATTR {
    auto w = hn::Set(d, T{1});
    for (int64_t at = n; at < rows * Np; at += Np) {
      w = hn::Mul(w, hn::Load(d, a + at));
      hn::Store(hn::Mul(w, hn::Load(d, from + at)), d, to + at);
    }
  });
}

// to_j = from_j prod_{m > j} a_m: from position j to the end of the block. `whole` (Np) receives
// the product of all gates.
template <typename T>
HWY_INLINE void Leave(int64_t rows, int64_t Np, const T* a, const T* from, T* to, T* whole) {
  ForVectors<T>(Np, [&](auto d, int64_t n) HWY_ATTR {
    auto w = hn::Set(d, T{1});
    for (int64_t at = (rows - 1) * Np + n; at >= 0; at -= Np) {
      hn::Store(hn::Mul(w, hn::Load(d, from + at)), d, to + at);
      w = hn::Mul(w, hn::Load(d, a + at));
    }
    hn::Store(w, d, whole + n);
  });
}

// sums_j (a vector) = sum over V vectors of keys of (q_i prod_{m=j+1}^{i} a_m) k_j, for all j <= i,
// added to what is there unless these are the first vectors. Without gates, a is null.
template <bool kGated, int V, typename T>
HWY_INLINE void AddToRow(int64_t i, int64_t Np, const T* HWY_RESTRICT q, const T* HWY_RESTRICT k,
                         const T* HWY_RESTRICT a, bool first, T* HWY_RESTRICT sums) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> w[V];
  HWY_UNROLL(4)
  for (int v = 0; v < V; ++v) w[v] = hn::Load(d, q + i * Np + v * lanes);
  for (int64_t j = i; j >= 0; --j) {
    auto sum = first ? hn::Zero(d) : hn::Load(d, sums + j * lanes);
    HWY_UNROLL(4)
    for (int v = 0; v < V; ++v) {
      const int64_t at = j * Np + v * lanes;
      sum = hn::MulAdd(w[v], hn::Load(d, k + at), sum);
      if constexpr (kGated) w[v] = hn::Mul(w[v], hn::Load(d, a + at));
    }
    hn::Store(sum, d, sums + j * lanes);
  }
}

// The block on the diagonal, M (rows, kBlock): M_ij = sum_n (q_in prod_{m=j+1}^{i} a_mn) k_jn, zero
// above. Without gates, a is null. Sums over lanes are made four at a time.
template <bool kGated, typename T>
HWY_NOINLINE void DiagonalBlock(int64_t rows, int64_t Np, const T* HWY_RESTRICT q,
                                const T* HWY_RESTRICT k, const T* HWY_RESTRICT a,
                                T* HWY_RESTRICT M) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  HWY_ALIGN T sums[kBlock * hn::MaxLanes(hn::ScalableTag<T>())] = {};
  std::memset(M, 0, sizeof(T) * static_cast<size_t>(rows * kBlock));
  for (int64_t i = 0; i < rows; ++i) {
    int64_t n = 0;
    const auto add = [&]<int V>() HWY_ATTR {
      for (; n + V * lanes <= Np; n += V * lanes)
        AddToRow<kGated, V>(i, Np, q + n, k + n, kGated ? a + n : nullptr, n == 0, sums);
    };
    add.template operator()<4>();
    add.template operator()<1>();
    for (int64_t j = 0; j <= i; j += 4) StoreSumsOfFour(d, sums + j * lanes, M + i * kBlock + j);
  }
}

// Its gradients: with w = prod_{m=j+1}^{i} a_m, dq_i += dM_ij w k_j and dk_j += dM_ij w q_i.
template <typename T>
HWY_NOINLINE void DiagonalGradients(int64_t rows, int64_t Np, const T* HWY_RESTRICT q,
                                    const T* HWY_RESTRICT k, const T* HWY_RESTRICT a,
                                    const T* HWY_RESTRICT dM, T* HWY_RESTRICT dq,
                                    T* HWY_RESTRICT dk) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t n = 0; n < Np; n += lanes)
    for (int64_t i = 0; i < rows; ++i) {
      auto w = hn::Set(d, T{1}), sum = hn::Load(d, dq + i * Np + n);
      const auto query = hn::Load(d, q + i * Np + n);
      for (int64_t j = i; j >= 0; --j) {
        const int64_t at = j * Np + n;
        const auto s = hn::Mul(hn::Set(d, dM[i * kBlock + j]), w);
        sum = hn::MulAdd(s, hn::Load(d, k + at), sum);
        hn::Store(hn::MulAdd(s, query, hn::Load(d, dk + at)), d, dk + at);
        w = hn::Mul(w, hn::Load(d, a + at));
      }
      hn::Store(sum, d, dq + i * Np + n);
    }
}

// Positions of a head: the operands of its products, rows padded to whole vectors.
template <typename T>
struct GatedRows {
  T* X;          // (positions, Pp)
  T *Q, *K, *a;  // (positions, Np): queries, keys, gates

  static int64_t Size(const GatedChunkShape& s, int64_t positions) {
    return positions * (s.padded(s.P) + 3 * s.padded(s.N));
  }
  GatedRows(const GatedChunkShape& s, int64_t positions, T* memory)
      : X(memory),
        Q(X + positions * s.padded(s.P)),
        K(Q + positions * s.padded(s.N)),
        a(K + positions * s.padded(s.N)) {}

  GatedRows at(const GatedChunkShape& s, int64_t row) const {
    GatedRows rows = *this;
    rows.X += row * s.padded(s.P);
    for (T** keys : {&rows.Q, &rows.K, &rows.a}) *keys += row * s.padded(s.N);
    return rows;
  }
  HWY_INLINE void Load(const GatedChunkShape& s, const GatedScanInputs<T>& in, int64_t first,
                       int64_t rows, int64_t h) const {
    LoadRows(in.x, first, rows, h, s.P, X);
    LoadRows(in.q, first, rows, h, s.N, Q);
    LoadRows(in.k, first, rows, h, s.N, K);
    LoadRows(in.g, first, rows, h, s.N, a);
    ForVectors<T>(rows * s.padded(s.N), [&](auto d, int64_t i) HWY_ATTR {
      hn::Store(hn::Exp(d, hn::Load(d, a + i)), d, a + i);
    });
  }
};

template <typename T>
HWY_INLINE void WantInputs(Ahead& ahead, const GatedChunkShape& s, const GatedScanInputs<T>& in,
                           int64_t first, int64_t rows, int64_t h) {
  WantRows(ahead, in.x, first, rows, h, s.P);
  for (const auto* keys : {&in.q, &in.k, &in.g}) WantRows(ahead, *keys, first, rows, h, s.N);
}

template <typename T>
void GatedForward(const GatedScanForward<T>& p, const GatedScanRange& range, int64_t h) {
  const GatedChunkShape s(p.shape);
  const hn::ScalableTag<T> d;
  const int64_t Pp = s.padded(s.P), Np = s.padded(s.N), state = s.state();
  Scratch<T> scratch(GatedRows<T>::Size(s, kBlock) + kBlock * (Pp + kBlock) + state + Np +
                     8 * ChunkShape::kPad);
  const GatedRows<T> block(s, kBlock, scratch.Take(GatedRows<T>::Size(s, kBlock)));
  T *Y = scratch.Take(kBlock * Pp), *M = scratch.Take(kBlock * kBlock);
  T *running = scratch.Take(state), *whole = scratch.Take(Np);
  int64_t chunk = range.first_chunk;
  T* H = running;  // the state before the block
  for (int64_t begin = range.begin; begin < range.end; begin += s.tile, ++chunk) {
    const int64_t end = HWY_MIN(begin + s.tile, range.end);
    for (int64_t first = begin; first < end; first += kBlock) {
      const int64_t rows = HWY_MIN(kBlock, end - first), next = first + rows;
      const bool entered = first > range.begin;
      block.Load(s, p.in, first, rows, h);
      Ahead ahead(kAheadLines);
      WantRows(ahead, p.y, first, rows, h, s.P);
      if (next < range.end) WantInputs(ahead, s, p.in, next, HWY_MIN(kBlock, range.end - next), h);
      DiagonalBlock<true>(rows, Np, block.Q, block.K, block.a, M);
      Gemm(d, rows, Pp, rows, Entries<T>{M, kBlock, 1}, block.X, Pp, Result<T>{.c = Y, .ld = Pp},
           &ahead, Shape::kLower);
      if (entered) {
        Enter(rows, Np, block.a, block.Q, block.Q);
        Gemm(d, rows, Pp, s.N, Entries<T>{block.Q, Np, 1}, H, Pp,
             Result<T>{.c = Y, .ld = Pp, .from = Y}, &ahead);
      }
      StoreRows(Y, first, rows, h, s.P, p.y);
      if (next == range.end) break;
      T* after =
          next == end && p.states != nullptr ? p.states + ((chunk + 1) * s.H + h) * state : running;
      Leave(rows, Np, block.a, block.K, block.K, whole);
      Gemm(d, s.N, Pp, rows, Entries<T>{block.K, 1, Np}, block.X, Pp,
           Result<T>{.c = after, .ld = Pp, .from = entered ? H : nullptr, .rows = whole}, &ahead);
      H = after;
    }
  }
}

// One chunk of the backward pass after the other, from the last. The states before its blocks are
// computed again from the one that enters it, transposed, as the gradients of the queries need
// them.
template <typename T>
void GatedBackward(const GatedScanBackward<T>& p, const GatedScanRange& range, int64_t h) {
  const GatedChunkShape s(p.shape);
  const hn::ScalableTag<T> d;
  const int64_t Pp = s.padded(s.P), Np = s.padded(s.N), state = s.state();
  const int64_t most = (s.tile + kBlock - 1) / kBlock;  // blocks of a chunk
  Scratch<T> scratch(GatedRows<T>::Size(s, s.tile) + s.tile * Pp + most * s.P * Np +
                     kBlock * (Pp + 4 * Np + 2 * kBlock) + state + s.P * Np + 2 * Np +
                     16 * ChunkShape::kPad);
  const GatedRows<T> chunk(s, s.tile, scratch.Take(GatedRows<T>::Size(s, s.tile)));
  T *dYs = scratch.Take(s.tile * Pp), *Hts = scratch.Take(most * s.P * Np);
  T *dX = scratch.Take(kBlock * Pp), *dQ = scratch.Take(kBlock * Np),
    *dK = scratch.Take(kBlock * Np), *dG = scratch.Take(kBlock * Np);
  T* through = scratch.Take(kBlock * Np);  // k leave, then q enter
  T *M = scratch.Take(kBlock * kBlock), *dM = scratch.Take(kBlock * kBlock);
  T *dH = scratch.Take(state), *dHt = scratch.Take(s.P * Np);  // of the state after the block
  T *whole = scratch.Take(Np), *sum = scratch.Take(Np);

  const int64_t count = (range.end - range.begin + s.tile - 1) / s.tile;
  for (int64_t i = count - 1; i >= 0; --i) {
    const int64_t begin = range.begin + i * s.tile, rows = HWY_MIN(s.tile, range.end - begin);
    const int64_t number = range.first_chunk + i, blocks = (rows + kBlock - 1) / kBlock;
    const bool entered = i > 0, left = i + 1 < count;
    chunk.Load(s, p.in, begin, rows, h);
    LoadRows(p.dy, begin, rows, h, s.P, dYs);
    Ahead ahead(kAheadLines);
    WantRows(ahead, p.dx, begin, rows, h, s.P);
    for (const auto* keys : {&p.dq, &p.dk, &p.dg}) WantRows(ahead, *keys, begin, rows, h, s.N);
    if (entered) {
      WantInputs(ahead, s, p.in, begin - s.tile, s.tile, h);
      WantRows(ahead, p.dy, begin - s.tile, s.tile, h, s.P);
      Transpose<T>(p.states + (number * s.H + h) * state, Pp, s.N, s.P, Hts, Np);
    }
    for (int64_t b = 0; b + 1 < blocks; ++b) {
      const GatedRows<T> block = chunk.at(s, b * kBlock);
      Leave(kBlock, Np, block.a, block.K, through, whole);
      const T* Ht = Hts + b * s.P * Np;
      Gemm(d, s.P, Np, kBlock, Entries<T>{block.X, 1, Pp}, through, Np,
           Result<T>{.c = Hts + (b + 1) * s.P * Np,
                     .ld = Np,
                     .from = entered || b > 0 ? Ht : nullptr,
                     .columns = whole},
           &ahead);
    }

    // The part of every gate's gradient that comes from positions after the chunk.
    std::memset(sum, 0, sizeof(T) * static_cast<size_t>(Np));
    if (left) {
      const T* next = p.states + ((number + 1) * s.H + h) * state;
      for (int64_t n = 0; n < s.N; ++n) {
        auto dot = hn::Zero(d);
        for (int64_t j = 0; j < Pp; j += static_cast<int64_t>(hn::Lanes(d)))
          dot = hn::MulAdd(hn::Load(d, dH + n * Pp + j), hn::Load(d, next + n * Pp + j), dot);
        sum[n] = hn::GetLane(hn::SumOfLanes(d, dot));
      }
    }
    for (int64_t b = blocks - 1; b >= 0; --b) {
      const int64_t first = b * kBlock, c = HWY_MIN(kBlock, rows - first);
      const GatedRows<T> block = chunk.at(s, first);
      const T *dY = dYs + first * Pp, *Ht = Hts + b * s.P * Np;
      const bool before = entered || b > 0, after = left || b + 1 < blocks;
      DiagonalBlock<true>(c, Np, block.Q, block.K, block.a, M);
      DiagonalBlock<false>(c, Pp, dY, block.X, static_cast<const T*>(nullptr), dM);
      Gemm(d, c, Pp, c, Entries<T>{M, 1, kBlock}, dY, Pp, Result<T>{.c = dX, .ld = Pp}, &ahead,
           Shape::kUpper);
      Leave(c, Np, block.a, block.K, through, whole);
      if (after) {
        Gemm(d, c, Pp, s.N, Entries<T>{through, Np, 1}, dH, Pp,
             Result<T>{.c = dX, .ld = Pp, .from = dX}, &ahead);
        Gemm(d, c, Np, s.P, Entries<T>{block.X, Pp, 1}, dHt, Np, Result<T>{.c = dK, .ld = Np},
             &ahead);
        Leave(c, Np, block.a, dK, dK, whole);
      } else {
        std::memset(dK, 0, sizeof(T) * static_cast<size_t>(c * Np));
      }
      if (before) {
        Gemm(d, c, Np, s.P, Entries<T>{dY, Pp, 1}, Ht, Np, Result<T>{.c = dQ, .ld = Np}, &ahead);
        Enter(c, Np, block.a, dQ, dQ);
      } else {
        std::memset(dQ, 0, sizeof(T) * static_cast<size_t>(c * Np));
      }
      DiagonalGradients(c, Np, block.Q, block.K, block.a, dM, dQ, dK);
      for (int64_t t = c - 1; t >= 0; --t)
        ForVectors<T>(Np, [&](auto tag, int64_t n) HWY_ATTR {
          const int64_t at = t * Np + n;
          const auto kept = hn::NegMulAdd(hn::Load(tag, block.K + at), hn::Load(tag, dK + at),
                                          hn::Load(tag, sum + n));
          const auto v = hn::MulAdd(hn::Load(tag, block.Q + at), hn::Load(tag, dQ + at), kept);
          hn::Store(v, tag, sum + n);
          hn::Store(v, tag, dG + at);
        });
      StoreRows(dX, begin + first, c, h, s.P, p.dx);
      StoreRows(dQ, begin + first, c, h, s.N, p.dq);
      StoreRows(dK, begin + first, c, h, s.N, p.dk);
      StoreRows(dG, begin + first, c, h, s.N, p.dg);

      if (!before) continue;
      Enter(c, Np, block.a, block.Q, through);
      Gemm(d, s.N, Pp, c, Entries<T>{through, 1, Np}, dY, Pp,
           Result<T>{.c = dH, .ld = Pp, .from = after ? dH : nullptr, .rows = whole}, &ahead);
      Transpose(dH, Pp, s.N, s.P, dHt, Np);
    }
  }
}

#define HYDRAMIX_GATED_SCAN(T, name)                                                   \
  void GatedForward##name(const GatedScanForward<T>& p, const GatedScanRange& range,   \
                          int64_t head) {                                              \
    GatedForward(p, range, head);                                                      \
  }                                                                                    \
  void GatedBackward##name(const GatedScanBackward<T>& p, const GatedScanRange& range, \
                           int64_t head) {                                             \
    GatedBackward(p, range, head);                                                     \
  }
HYDRAMIX_GATED_SCAN(float, F32)
HYDRAMIX_GATED_SCAN(double, F64)

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

#define HYDRAMIX_EXPORT_GATED_SCAN(T, name)                                               \
  HWY_EXPORT(GatedForward##name);                                                         \
  HWY_EXPORT(GatedBackward##name);                                                        \
  template <>                                                                             \
  void gated_scan_forward<T>(const GatedScanForward<T>& p, const GatedScanRange& range,   \
                             int64_t head) {                                              \
    HWY_DYNAMIC_DISPATCH(GatedForward##name)(p, range, head);                             \
  }                                                                                       \
  template <>                                                                             \
  void gated_scan_backward<T>(const GatedScanBackward<T>& p, const GatedScanRange& range, \
                              int64_t head) {                                             \
    HWY_DYNAMIC_DISPATCH(GatedBackward##name)(p, range, head);                            \
  }
HYDRAMIX_EXPORT_GATED_SCAN(float, F32)
HYDRAMIX_EXPORT_GATED_SCAN(double, F64)

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
