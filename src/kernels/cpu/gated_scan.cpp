// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gated_scan.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gated_scan.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/scan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

// to = a * b, value by value; to may be a or b.
template <typename T>
HWY_INLINE void Multiply(int64_t n, const T* a, const T* b, T* to) {
  ForVectors<T>(n, [&](auto d, int64_t i) HWY_ATTR {
    hn::Store(hn::Mul(hn::Load(d, a + i), hn::Load(d, b + i)), d, to + i);
  });
}

// to += a * b.
template <typename T>
HWY_INLINE void AddProduct(int64_t n, const T* a, const T* b, T* to) {
  ForVectors<T>(n, [&](auto d, int64_t i) HWY_ATTR {
    hn::Store(hn::MulAdd(hn::Load(d, a + i), hn::Load(d, b + i), hn::Load(d, to + i)), d, to + i);
  });
}

// to (N, Pp) = from (N, Pp) with row n scaled by scale[n].
template <typename T>
HWY_INLINE void ScaleRows(int64_t N, int64_t columns, int64_t ld, const T* scale, const T* from,
                          T* to) {
  for (int64_t n = 0; n < N; ++n)
    ForVectors<T>(columns, [&](auto d, int64_t i) HWY_ATTR {
      hn::Store(hn::Mul(hn::Set(d, scale[n]), hn::Load(d, from + n * ld + i)), d, to + n * ld + i);
    });
}

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

// The block on the diagonal: M_ij = sum_n (q_in prod_{m=j+1}^{i} a_mn) k_jn, zero above. `t` is a
// row of scratch memory.
template <typename T>
HWY_NOINLINE void DiagonalBlock(int64_t rows, int64_t Np, const T* HWY_RESTRICT q,
                                const T* HWY_RESTRICT k, const T* HWY_RESTRICT a, T* HWY_RESTRICT t,
                                T* HWY_RESTRICT M, int64_t ld) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(t, q + i * Np, sizeof(T) * static_cast<size_t>(Np));
    for (int64_t j = i; j >= 0; --j) {
      auto sum = hn::Zero(d);
      for (int64_t n = 0; n < Np; n += lanes) {
        const auto v = hn::Load(d, t + n);
        sum = hn::MulAdd(v, hn::Load(d, k + j * Np + n), sum);
        hn::Store(hn::Mul(v, hn::Load(d, a + j * Np + n)), d, t + n);
      }
      M[i * ld + j] = hn::GetLane(hn::SumOfLanes(d, sum));
    }
    for (int64_t j = i + 1; j < ChunkShape::padded(rows); ++j) M[i * ld + j] = 0;
  }
}

// Its gradients: with w = prod_{m=j+1}^{i} a_m, dq_i += dM_ij w k_j and dk_j += dM_ij w q_i.
template <typename T>
HWY_NOINLINE void DiagonalGradients(int64_t rows, int64_t Np, const T* HWY_RESTRICT q,
                                    const T* HWY_RESTRICT k, const T* HWY_RESTRICT a,
                                    const T* HWY_RESTRICT dM, int64_t ld, T* HWY_RESTRICT dq,
                                    T* HWY_RESTRICT dk) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t n = 0; n < Np; n += lanes)
    for (int64_t i = 0; i < rows; ++i) {
      auto w = hn::Set(d, T{1}), sum = hn::Load(d, dq + i * Np + n);
      const auto query = hn::Load(d, q + i * Np + n);
      for (int64_t j = i; j >= 0; --j) {
        const int64_t at = j * Np + n;
        const auto s = hn::Mul(hn::Set(d, dM[i * ld + j]), w);
        sum = hn::MulAdd(s, hn::Load(d, k + at), sum);
        hn::Store(hn::MulAdd(s, query, hn::Load(d, dk + at)), d, dk + at);
        w = hn::Mul(w, hn::Load(d, a + at));
      }
      hn::Store(sum, d, dq + i * Np + n);
    }
}

// Decays and the matrix of one chunk and head, block by block from the left.
template <typename T>
class GatedChunk {
 public:
  GatedChunk(const GatedChunkShape& shape, T* memory)
      : s(shape), Np(s.padded(s.N)), Pp(s.padded(s.P)), ld(s.padded(s.tile)) {
    T* at = memory;
    const auto take = [&](int64_t size) {
      T* piece = at;
      at += size;
      return piece;
    };
    X = take(s.tile * Pp);
    Q = take(s.tile * Np), K = take(s.tile * Np), a = take(s.tile * Np);
    enter = take(s.tile * Np), leave = take(s.tile * Np);
    QE = take(s.tile * Np), QEW = take(s.tile * Np), KV = take(s.tile * Np);
    KVt = take(s.padded(s.N) * ld), M = take(s.tile * ld);
    whole = take(Blocks(s) * Np), before = take((Blocks(s) + 1) * Np);
    row = take(Np);
  }
  static int64_t Blocks(const GatedChunkShape& s) {
    return (s.tile + GatedChunkShape::kBlock - 1) / GatedChunkShape::kBlock;
  }
  static int64_t Size(const GatedChunkShape& s) {
    const int64_t n = s.padded(s.N), p = s.padded(s.P), t = s.padded(s.tile);
    return s.tile * (p + 8 * n + t) + n * t + (2 * Blocks(s) + 2) * n;
  }

  void Load(const GatedScanInputs<T>& in, int64_t first, int64_t count, int64_t h) {
    rows = count;
    LoadRows(in.x, first, rows, h, s.P, X);
    LoadRows(in.q, first, rows, h, s.N, Q);
    LoadRows(in.k, first, rows, h, s.N, K);
    LoadRows(in.g, first, rows, h, s.N, a);
    ForVectors<T>(rows * Np, [&](auto d, int64_t i)
                                 HWY_ATTR { hn::Store(hn::Exp(d, hn::Load(d, a + i)), d, a + i); });
    ForVectors<T>(Np,
                  [&](auto d, int64_t n) HWY_ATTR { hn::Store(hn::Set(d, T{1}), d, before + n); });
  }
  void Want(Ahead& ahead, const GatedScanInputs<T>& in, int64_t first, int64_t count,
            int64_t h) const {
    WantRows(ahead, in.x, first, count, h, s.P);
    for (const auto* keys : {&in.q, &in.k, &in.g}) WantRows(ahead, *keys, first, count, h, s.N);
  }
  int64_t RowsOf(int64_t r) const { return HWY_MIN(GatedChunkShape::kBlock, rows - r); }
  // The product of all gates of the chunk.
  const T* Whole() const {
    const int64_t blocks = (rows + GatedChunkShape::kBlock - 1) / GatedChunkShape::kBlock;
    return before + blocks * Np;
  }

  // Rows r .. r + RowsOf(r) of M. KV and KVt hold the columns before r, relative to r.
  HWY_INLINE void Rows(int64_t r, Ahead& ahead) {
    const hn::ScalableTag<T> d;
    const int64_t c = RowsOf(r), b = r / GatedChunkShape::kBlock;
    for (int64_t i = r; i < r + c; ++i) {
      const T* previous = i == r ? nullptr : enter + (i - 1) * Np;
      if (previous == nullptr)
        std::memcpy(enter + i * Np, a + i * Np, sizeof(T) * static_cast<size_t>(Np));
      else
        Multiply(Np, previous, a + i * Np, enter + i * Np);
      Multiply(Np, Q + i * Np, enter + i * Np, QE + i * Np);
      Multiply(Np, QE + i * Np, before + b * Np, QEW + i * Np);
    }
    std::memcpy(whole + b * Np, enter + (r + c - 1) * Np, sizeof(T) * static_cast<size_t>(Np));
    if (r > 0)
      Gemm(d, c, r, s.N, Entries<T>{QE + r * Np, Np, 1}, KVt, ld,
           Result<T>{.c = M + r * ld, .ld = ld}, &ahead);
    DiagonalBlock(c, Np, Q + r * Np, K + r * Np, a + r * Np, row, M + r * ld + r, ld);
  }

  // Moves KV and KVt, the columns before r, to the end of block r, and adds those of the block.
  HWY_INLINE void Advance(int64_t r, bool keep_rows) {
    const int64_t c = RowsOf(r), b = r / GatedChunkShape::kBlock;
    const T* over = whole + b * Np;
    ScaleRows(s.N, r, ld, over, KVt, KVt);
    if (keep_rows)
      for (int64_t j = 0; j < r; ++j) Multiply(Np, KV + j * Np, over, KV + j * Np);
    for (int64_t j = r + c - 1; j >= r; --j) {
      T* to = leave + j * Np;
      if (j == r + c - 1)
        ForVectors<T>(Np,
                      [&](auto d, int64_t n) HWY_ATTR { hn::Store(hn::Set(d, T{1}), d, to + n); });
      else
        Multiply(Np, to + Np, a + (j + 1) * Np, to);
      Multiply(Np, K + j * Np, to, KV + j * Np);
    }
    Transpose(KV + r * Np, Np, c, s.N, KVt + r, ld);
    Multiply(Np, before + b * Np, over, before + (b + 1) * Np);
  }

  const GatedChunkShape s;
  const int64_t Np, Pp, ld;
  int64_t rows = 0;
  T* X;                     // (rows, Pp)
  T *Q, *K, *a;             // (rows, Np)
  T *enter, *leave;         // (rows, Np): from the start of the block, to its end
  T *QE, *QEW;              // (rows, Np): q enter, and the same from the start of the chunk
  T* KV;                    // (rows, Np): k, decayed to the end of the blocks so far
  T* KVt;                   // (N, ld)
  T* M;                     // (rows, ld)
  T *whole, *before, *row;  // per block (Np): its gates; those of the blocks before it
};

constexpr int kAheadLines = 40;

template <typename T>
void GatedForward(const GatedScanForward<T>& p, const GatedScanRange& range, int64_t h) {
  const GatedChunkShape s(p.shape);
  const hn::ScalableTag<T> d;
  const int64_t Pp = s.padded(s.P), Np = s.padded(s.N), state = s.state();
  Scratch<T> scratch(GatedChunk<T>::Size(s) + s.tile * Pp + state + 64);
  GatedChunk<T> chunk(s, scratch.Take(GatedChunk<T>::Size(s)));
  T *Y = scratch.Take(s.tile * Pp), *running = scratch.Take(state);
  int64_t k = range.first_chunk;
  for (int64_t first = range.begin; first < range.end; first += s.tile, ++k) {
    const bool entered = first > range.begin;
    T* H = p.states == nullptr ? running : p.states + (k * s.H + h) * state;
    chunk.Load(p.in, first, HWY_MIN(s.tile, range.end - first), h);
    Ahead ahead(kAheadLines);
    WantRows(ahead, p.y, first, chunk.rows, h, s.P);
    if (const int64_t next = first + chunk.rows; next < range.end)
      chunk.Want(ahead, p.in, next, HWY_MIN(s.tile, range.end - next), h);
    for (int64_t r = 0; r < chunk.rows; r += GatedChunkShape::kBlock) {
      const int64_t c = chunk.RowsOf(r);
      chunk.Rows(r, ahead);
      Gemm(d, c, Pp, r + c, Entries<T>{chunk.M + r * chunk.ld, chunk.ld, 1}, chunk.X, Pp,
           Result<T>{.c = Y + r * Pp, .ld = Pp}, &ahead);
      if (entered)
        Gemm(d, c, Pp, s.N, Entries<T>{chunk.QEW + r * Np, Np, 1}, H, Pp,
             Result<T>{.c = Y + r * Pp, .ld = Pp, .from = Y + r * Pp}, &ahead);
      chunk.Advance(r, /*keep_rows=*/false);
    }
    StoreRows(Y, first, chunk.rows, h, s.P, p.y);
    if (first + chunk.rows == range.end) break;
    T* next = p.states == nullptr ? running : p.states + ((k + 1) * s.H + h) * state;
    if (entered) ScaleRows(s.N, Pp, Pp, chunk.Whole(), H, next);
    Gemm(d, s.N, Pp, chunk.rows, Entries<T>{chunk.KVt, chunk.ld, 1}, chunk.X, Pp,
         Result<T>{.c = next, .ld = Pp, .from = entered ? next : nullptr}, &ahead);
  }
}

template <typename T>
void GatedBackward(const GatedScanBackward<T>& p, const GatedScanRange& range, int64_t h) {
  const GatedChunkShape s(p.shape);
  const hn::ScalableTag<T> d;
  constexpr int64_t kBlock = GatedChunkShape::kBlock;
  const int64_t Pp = s.padded(s.P), Np = s.padded(s.N), ld = s.padded(s.tile), state = s.state();
  Scratch<T> scratch(GatedChunk<T>::Size(s) + s.tile * (2 * Pp + 4 * Np + ld) + s.P * ld +
                     2 * s.P * Np + state + Np + 16 * 16);
  GatedChunk<T> chunk(s, scratch.Take(GatedChunk<T>::Size(s)));
  T *dY = scratch.Take(s.tile * Pp), *dX = scratch.Take(s.tile * Pp);
  T *dQ = scratch.Take(s.tile * Np), *dK = scratch.Take(s.tile * Np);
  T *reach = scratch.Take(s.tile * Np), *inner = scratch.Take(s.tile * Np);
  T *dM = scratch.Take(s.tile * ld), *Xt = scratch.Take(s.P * ld);
  T *Ht = scratch.Take(s.P * Np), *dHt = scratch.Take(s.P * Np);
  T *dH = scratch.Take(state), *sum = scratch.Take(Np);

  const int64_t count = (range.end - range.begin + s.tile - 1) / s.tile;
  for (int64_t i = count - 1; i >= 0; --i) {
    const int64_t first = range.begin + i * s.tile, k = range.first_chunk + i;
    const bool entered = i > 0, left = i + 1 < count;
    const T* H = entered ? p.states + (k * s.H + h) * state : nullptr;
    chunk.Load(p.in, first, HWY_MIN(s.tile, range.end - first), h);
    const int64_t rows = chunk.rows, last_block = (rows - 1) / kBlock * kBlock;
    LoadRows(p.dy, first, rows, h, s.P, dY);
    Ahead ahead(kAheadLines);
    WantRows(ahead, p.dx, first, rows, h, s.P);
    if (entered) {
      chunk.Want(ahead, p.in, first - s.tile, s.tile, h);
      WantRows(ahead, p.dy, first - s.tile, s.tile, h, s.P);
    }
    Transpose(chunk.X, Pp, rows, s.P, Xt, ld);
    if (entered) Transpose<T>(H, Pp, s.N, s.P, Ht, Np);
    std::memset(dK, 0, sizeof(T) * static_cast<size_t>(rows * Np));

    // dM = dY X^T, and from it dq; from the left, with the columns before a block relative to it.
    for (int64_t r = 0; r < rows; r += kBlock) {
      const int64_t c = chunk.RowsOf(r);
      chunk.Rows(r, ahead);
      Gemm(d, c, s.padded(r + c), s.P, Entries<T>{dY + r * Pp, Pp, 1}, Xt, ld,
           Result<T>{.c = dM + r * ld, .ld = ld}, &ahead);
      if (r > 0)
        Gemm(d, c, Np, r, Entries<T>{dM + r * ld, ld, 1}, chunk.KV, Np,
             Result<T>{.c = dQ + r * Np, .ld = Np}, &ahead);
      else
        std::memset(dQ, 0, sizeof(T) * static_cast<size_t>(c * Np));
      if (entered) {
        // q meets the state through the gates of the blocks before as well.
        const T* before = chunk.before + r / kBlock * Np;
        Gemm(d, c, Np, s.P, Entries<T>{dY + r * Pp, Pp, 1}, Ht, Np, Result<T>{.c = inner, .ld = Np},
             &ahead);
        for (int64_t t = 0; t < c; ++t) AddProduct(Np, before, inner + t * Np, dQ + (r + t) * Np);
      }
      Multiply(c * Np, chunk.enter + r * Np, dQ + r * Np, dQ + r * Np);
      DiagonalGradients(c, Np, chunk.Q + r * Np, chunk.K + r * Np, chunk.a + r * Np,
                        dM + r * ld + r, ld, dQ + r * Np, dK + r * Np);
      chunk.Advance(r, /*keep_rows=*/true);
    }

    // dk; from the right. `reach` is what later places ask of k, relative to the end of a block.
    if (left) {
      Transpose(dH, Pp, s.N, s.P, dHt, Np);
      Gemm(d, rows, Np, s.P, Entries<T>{chunk.X, Pp, 1}, dHt, Np, Result<T>{.c = reach, .ld = Np});
    } else {
      std::memset(reach, 0, sizeof(T) * static_cast<size_t>(rows * Np));
    }
    for (int64_t r = last_block; r >= 0; r -= kBlock) {
      const int64_t c = chunk.RowsOf(r);
      AddProduct(c * Np, chunk.leave + r * Np, reach + r * Np, dK + r * Np);
      if (r == 0) break;
      const T* over = chunk.whole + r / kBlock * Np;
      for (int64_t j = 0; j < r; ++j) Multiply(Np, over, reach + j * Np, reach + j * Np);
      Gemm(d, r, Np, c, Entries<T>{dM + r * ld, 1, ld}, chunk.QE + r * Np, Np,
           Result<T>{.c = reach, .ld = Np, .from = reach}, &ahead);
    }

    for (int64_t r = 0; r < rows; r += kBlock)
      Gemm(d, chunk.RowsOf(r), Pp, rows - r, Entries<T>{chunk.M + r * ld + r, 1, ld}, dY + r * Pp,
           Pp, Result<T>{.c = dX + r * Pp, .ld = Pp}, &ahead);
    if (left)
      Gemm(d, rows, Pp, s.N, Entries<T>{chunk.KVt, 1, ld}, dH, Pp,
           Result<T>{.c = dX, .ld = Pp, .from = dX}, &ahead);

    // dg: terms beyond the end of the chunk, then those inside it.
    std::memset(sum, 0, sizeof(T) * static_cast<size_t>(Np));
    if (left) {
      const T* next = p.states + ((k + 1) * s.H + h) * state;
      for (int64_t n = 0; n < s.N; ++n) {
        auto dot = hn::Zero(d);
        for (int64_t j = 0; j < Pp; j += static_cast<int64_t>(hn::Lanes(d)))
          dot = hn::MulAdd(hn::Load(d, dH + n * Pp + j), hn::Load(d, next + n * Pp + j), dot);
        sum[n] = hn::GetLane(hn::SumOfLanes(d, dot));
      }
    }
    for (int64_t t = rows - 1; t >= 0; --t)
      ForVectors<T>(Np, [&](auto tag, int64_t n) HWY_ATTR {
        const int64_t at = t * Np + n;
        const auto kept = hn::NegMulAdd(hn::Load(tag, chunk.K + at), hn::Load(tag, dK + at),
                                        hn::Load(tag, sum + n));
        const auto v = hn::MulAdd(hn::Load(tag, chunk.Q + at), hn::Load(tag, dQ + at), kept);
        hn::Store(v, tag, sum + n);
        hn::Store(v, tag, reach + at);
      });
    StoreRows(dX, first, rows, h, s.P, p.dx);
    StoreRows(dQ, first, rows, h, s.N, p.dq);
    StoreRows(dK, first, rows, h, s.N, p.dk);
    StoreRows(reach, first, rows, h, s.N, p.dg);

    if (!entered) continue;
    if (left) ScaleRows(s.N, Pp, Pp, chunk.Whole(), dH, dH);
    Gemm(d, s.N, Pp, rows, Entries<T>{chunk.QEW, 1, Np}, dY, Pp,
         Result<T>{.c = dH, .ld = Pp, .from = left ? dH : nullptr});
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
