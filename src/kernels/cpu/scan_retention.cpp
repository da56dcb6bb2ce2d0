// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/scan_retention.h"

#include "kernels/cpu/targets.h"

#include <cmath>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/scan_retention.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/scan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

// The decays of one head.
template <typename T>
class FixedDecay {
 public:
  static int64_t Size(int64_t tile) { return 3 * ChunkShape::padded(tile); }
  FixedDecay(T* memory, int64_t tile, double A, double dt)
      : tile_(tile), steps_(memory), enter_(memory + 2 * ChunkShape::padded(tile)) {
    const double of_step = std::exp(HWY_MAX(A * dt, kLeastLog<T>));
    double power = 1;
    for (int64_t i = 0; i < tile; ++i) {
      steps_[tile - 1 - i] = static_cast<T>(power * dt);
      power *= of_step;
      enter_[i] = static_cast<T>(power);
    }
    for (int64_t u = tile; u < 2 * ChunkShape::padded(tile); ++u) steps_[u] = 0;
  }

  // Entry j: dt times the decay from column j <= i to row i; zero for j > i.
  const T* row(int64_t i) const { return steps_ + tile_ - 1 - i; }
  // Entry j: the same from column j to the end of `rows` rows, where the state leaves.
  const T* leave(int64_t rows) const { return row(rows - 1); }
  // Entry i: from the border at which the state enters, to row i.
  const T* enter() const { return enter_; }
  // From border to border.
  T whole(int64_t rows) const { return enter_[rows - 1]; }

 private:
  int64_t tile_;
  T *steps_, *enter_;
};

struct RetentionRows {
  int64_t begin, rows;
};

// A chunk of a head.
struct RetentionChunk : RetentionRows {
  int64_t number;
  bool first, last;  // of its sequence
};

template <typename S>
class RetentionChunks {
 public:
  RetentionChunks(const RetentionInputs<S>& in, const RetentionTask& task)
      : tile_(in.tile), task_(task) {}
  int64_t count() const { return (task_.end - task_.begin + tile_ - 1) / tile_; }
  RetentionChunk at(int64_t k) const {
    const int64_t begin = task_.begin + k * tile_;
    return {{begin, HWY_MIN(tile_, task_.end - begin)},
            task_.first_chunk + k,
            k == 0,
            k + 1 == count()};
  }

 private:
  int64_t tile_;
  const RetentionTask& task_;
};

// The head's n columns of some rows, (rows, padded n).
template <typename S, typename T>
HWY_INLINE void LoadColumns(const StridedRows<const S>& from, const RetentionRows& part,
                            int64_t head, int64_t n, T* to) {
  for (int64_t t = 0; t < part.rows; ++t)
    LoadRow(from.data + (part.begin + t) * from.stride + head * n, n,
            to + t * ChunkShape::padded(n));
}
// The same where they are, if they need no conversion: for operands that are read once. Others are
// loaded, because rows of a wide tensor, pages apart, share few places of the cache.
template <typename S, typename T>
HWY_INLINE Entries<T> ReadColumns(const StridedRows<const S>& from, const RetentionRows& part,
                                  int64_t head, int64_t n, T* memory) {
  if constexpr (std::is_same_v<S, T>) {
    return {from.data + part.begin * from.stride + head * n, from.stride, 1};
  } else {
    LoadColumns(from, part, head, n, memory);
    return {memory, ChunkShape::padded(n), 1};
  }
}
template <typename S, typename T>
HWY_INLINE void StoreColumns(const T* from, const RetentionRows& part, int64_t head, int64_t n,
                             const StridedRows<S>& to) {
  for (int64_t t = 0; t < part.rows; ++t)
    StoreRow(from + t * ChunkShape::padded(n), n,
             to.data + (part.begin + t) * to.stride + head * n);
}
// Prefetches them.
template <typename S>
HWY_INLINE void WantColumns(Ahead& ahead, const StridedRows<S>& rows, const RetentionRows& part,
                            int64_t head, int64_t n) {
  constexpr int64_t kBytes = sizeof(S);
  ahead.Want(rows.data + part.begin * rows.stride + head * n, part.rows, rows.stride * kBytes,
             n * kBytes);
}

// M (rows, ld), of which the lower triangle is given, times the decays; zeros above the diagonal.
template <typename T>
HWY_INLINE void Decay(const FixedDecay<T>& decay, int64_t rows, int64_t ld, T* HWY_RESTRICT M) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t i = 0; i < rows; ++i) {
    const T* HWY_RESTRICT row = decay.row(i);
    T* HWY_RESTRICT m = M + i * ld;
    int64_t j = 0;
    for (; j + lanes - 1 <= i; j += lanes)
      hn::Store(hn::Mul(hn::Load(d, m + j), hn::LoadU(d, row + j)), d, m + j);
    if (j <= i) {  // later tokens may not be finite, so a zero decay does not remove them
      const auto below = hn::FirstN(d, static_cast<size_t>(i + 1 - j));
      const auto v = hn::Mul(hn::Load(d, m + j), hn::LoadU(d, row + j));
      hn::Store(hn::IfThenElseZero(below, v), d, m + j);
      j += lanes;
    }
    for (; j < ChunkShape::padded(rows); j += lanes) hn::Store(hn::Zero(d), d, m + j);
  }
}

// to (rows, padded n) = from (rows, n) scaled row by row.
template <typename T>
HWY_INLINE void ScaleRows(const Entries<T>& from, const T* HWY_RESTRICT scale, int64_t rows,
                          int64_t n, T* HWY_RESTRICT to) {
  const int64_t ld = ChunkShape::padded(n);
  for (int64_t t = 0; t < rows; ++t)
    ForVectors<T>(ld, [&](auto d, int64_t i) HWY_ATTR {
      const auto v = LoadN(d, from.data + t * from.row + i, HWY_MAX(0, n - i));
      hn::Store(hn::Mul(v, hn::Set(d, scale[t])), d, to + t * ld + i);
    });
}

// The forward pass walks by blocks of so many positions: the matrix of a longer one costs more, and
// its operands leave the L1 cache. Only states between chunks are kept.
constexpr int64_t kRetentionBlock = 16;
constexpr int kAheadLines = 20;  // with every tile of a product: all of a block's are requested

template <typename S, typename T = Arithmetic<S>>
void Forward(const RetentionInputs<S>& in, const RetentionTask& task, const StridedRows<S>& y,
             T* states) {
  const hn::ScalableTag<T> d;
  const int64_t h = task.head, N = in.N, P = in.P, tile = kRetentionBlock;
  const int64_t ld = ChunkShape::padded(tile), Np = ChunkShape::padded(N),
                Pp = ChunkShape::padded(P);
  Scratch<T> scratch(3 * tile * Np + 2 * tile * Pp + N * ld + tile * ld + in.state() +
                     FixedDecay<T>::Size(tile) + 10 * ChunkShape::kPad);
  T *Q = scratch.Take(tile * Np), *K = scratch.Take(tile * Np), *weighted = scratch.Take(tile * Np);
  T *X = scratch.Take(tile * Pp), *Y = scratch.Take(tile * Pp);
  T *Kt = scratch.Take(N * ld), *M = scratch.Take(tile * ld);
  T* running = scratch.Take(in.state());
  const FixedDecay<T> decay(scratch.Take(FixedDecay<T>::Size(tile)), tile,
                            static_cast<double>(in.A[h]), in.dt);

  int64_t number = task.first_chunk;
  const T* H = running;  // the state that enters a block
  for (int64_t begin = task.begin; begin < task.end;) {
    const int64_t end_of_chunk =
        HWY_MIN(task.begin + (number - task.first_chunk + 1) * in.tile, task.end);
    const RetentionRows block{begin, HWY_MIN(tile, end_of_chunk - begin)};
    const int64_t rows = block.rows, end = begin + rows;
    const Entries<T> q = ReadColumns(in.c, block, h, N, Q), k = ReadColumns(in.b, block, h, N, K);
    LoadColumns(in.x, block, h, P, X);
    Ahead ahead(kAheadLines);
    WantColumns(ahead, y, block, h, P);
    if (end < task.end) {
      const RetentionRows next{end, HWY_MIN(tile, task.end - end)};
      WantColumns(ahead, in.c, next, h, N);
      WantColumns(ahead, in.b, next, h, N);
      WantColumns(ahead, in.x, next, h, P);
    }
    Transpose(k.data, k.row, rows, N, Kt, ld);
    GemmBelow(rows, N, q, Kt, ld, M, ld, &ahead);
    Decay(decay, rows, ld, M);
    for (int64_t i = 0; i < rows; ++i) M[i * ld + i] += in.diagonal[h];
    Gemm(d, rows, Pp, rows, Entries<T>{M, ld, 1}, X, Pp, Result<T>{.c = Y, .ld = Pp}, &ahead,
         Shape::kLower);
    const bool first = begin == task.begin;
    if (!first)
      Gemm(d, rows, Pp, N, q, H, Pp, Result<T>{.c = Y, .ld = Pp, .from = Y, .scale = decay.enter()},
           &ahead);
    StoreColumns(Y, block, h, P, y);
    if (end == task.end) break;
    T* next = running;
    if (end == end_of_chunk) {
      ++number;
      if (states != nullptr) next = states + (number * in.H + h) * in.state();
    }
    ScaleRows(k, decay.leave(rows), rows, N, weighted);
    Gemm(d, N, Pp, rows, Entries<T>{weighted, 1, Np}, X, Pp,
         Result<T>{.c = next, .ld = Pp, .from = first ? nullptr : H, .factor = decay.whole(rows)},
         &ahead);
    H = next;
    begin = end;
  }
}

// Per chunk, with W the decays, E = diag(enter) Q, V = diag(leave) K, H the state that enters and G
// the adjoint of the state that leaves,
//
//   Y = (Q K^T o W + D) X + E H,   H' = whole H + V^T X.
template <typename S, typename T = Arithmetic<S>>
void Backward(const RetentionInputs<S>& in, const RetentionTask& task,
              const StridedRows<const S>& dy, const T* states,
              const RetentionGradients<S>& gradients) {
  const hn::ScalableTag<T> d;
  const int64_t h = task.head, N = in.N, P = in.P, tile = in.tile;
  const int64_t ld = ChunkShape::padded(tile), Np = ChunkShape::padded(N),
                Pp = ChunkShape::padded(P);
  Scratch<T> scratch(4 * tile * Np + 3 * tile * Pp + (N + P) * ld + 2 * tile * ld + in.state() +
                     P * Np + FixedDecay<T>::Size(tile) + 16 * ChunkShape::kPad);
  T *Q = scratch.Take(tile * Np), *K = scratch.Take(tile * Np), *weighted = scratch.Take(tile * Np);
  T *X = scratch.Take(tile * Pp), *dY = scratch.Take(tile * Pp);
  T *dX = scratch.Take(tile * Pp), *dkeys = scratch.Take(tile * Np);
  T *Kt = scratch.Take(N * ld), *Xt = scratch.Take(P * ld);
  T *M = scratch.Take(tile * ld), *dM = scratch.Take(tile * ld);
  T *G = scratch.Take(in.state()), *transposed = scratch.Take(P * Np);
  const FixedDecay<T> decay(scratch.Take(FixedDecay<T>::Size(tile)), tile,
                            static_cast<double>(in.A[h]), in.dt);

  const RetentionChunks<S> chunks(in, task);
  for (int64_t k = chunks.count() - 1; k >= 0; --k) {
    const RetentionChunk chunk = chunks.at(k);
    const int64_t rows = chunk.rows;
    LoadColumns(in.c, chunk, h, N, Q);
    LoadColumns(in.b, chunk, h, N, K);
    const Entries<T> x = ReadColumns(in.x, chunk, h, P, X);
    LoadColumns(dy, chunk, h, P, dY);
    Ahead ahead(kAheadLines);
    WantColumns(ahead, gradients.x, chunk, h, P);
    WantColumns(ahead, gradients.c, chunk, h, N);
    WantColumns(ahead, gradients.b, chunk, h, N);
    if (!chunk.first) {
      const RetentionChunk next = chunks.at(k - 1);
      WantColumns(ahead, in.c, next, h, N);
      WantColumns(ahead, in.b, next, h, N);
      WantColumns(ahead, in.x, next, h, P);
      WantColumns(ahead, dy, next, h, P);
    }
    Transpose(K, Np, rows, N, Kt, ld);
    Transpose(x.data, x.row, rows, P, Xt, ld);
    GemmBelow(rows, N, Entries<T>{Q, Np, 1}, Kt, ld, M, ld, &ahead);
    GemmBelow(rows, P, Entries<T>{dY, Pp, 1}, Xt, ld, dM, ld, &ahead);
    Decay(decay, rows, ld, M);
    Decay(decay, rows, ld, dM);
    for (int64_t i = 0; i < rows; ++i) M[i * ld + i] += in.diagonal[h];

    Gemm(d, rows, Pp, rows, Entries<T>{M, 1, ld}, dY, Pp, Result<T>{.c = dX, .ld = Pp}, &ahead,
         Shape::kUpper);
    if (!chunk.last)
      Gemm(d, rows, Pp, N, Entries<T>{K, Np, 1}, G, Pp,
           Result<T>{.c = dX, .ld = Pp, .from = dX, .scale = decay.leave(rows)}, &ahead);
    StoreColumns(dX, chunk, h, P, gradients.x);

    const Result<T> set{.c = dkeys, .ld = Np};
    const auto add = [&](const T* scale) {
      return Result<T>{.c = dkeys, .ld = Np, .from = dkeys, .scale = scale};
    };
    Gemm(d, rows, Np, rows, Entries<T>{dM, ld, 1}, K, Np, set, &ahead, Shape::kLower);
    if (!chunk.first) {
      Transpose(states + (chunk.number * in.H + h) * in.state(), Pp, N, P, transposed, Np);
      Gemm(d, rows, Np, P, Entries<T>{dY, Pp, 1}, transposed, Np, add(decay.enter()), &ahead);
    }
    StoreColumns(dkeys, chunk, h, N, gradients.c);

    Gemm(d, rows, Np, rows, Entries<T>{dM, 1, ld}, Q, Np, set, &ahead, Shape::kUpper);
    if (!chunk.last) {
      Transpose(G, Pp, N, P, transposed, Np);
      Gemm(d, rows, Np, P, x, transposed, Np, add(decay.leave(rows)), &ahead);
    }
    StoreColumns(dkeys, chunk, h, N, gradients.b);

    if (chunk.first) continue;
    ScaleRows(Entries<T>{Q, Np, 1}, decay.enter(), rows, N, weighted);
    Gemm(d, N, Pp, rows, Entries<T>{weighted, 1, Np}, dY, Pp,
         Result<T>{.c = G, .ld = Pp, .from = chunk.last ? nullptr : G, .factor = decay.whole(rows)},
         &ahead);
  }
}

#define HYDRAMIX_RETENTION(S, name)                                                \
  void Forward##name(const RetentionInputs<S>& in, const RetentionTask& task,      \
                     const StridedRows<S>& y, Arithmetic<S>* states) {             \
    Forward(in, task, y, states);                                                  \
  }                                                                                \
  void Backward##name(const RetentionInputs<S>& in, const RetentionTask& task,     \
                      const StridedRows<const S>& dy, const Arithmetic<S>* states, \
                      const RetentionGradients<S>& gradients) {                    \
    Backward(in, task, dy, states, gradients);                                     \
  }
HYDRAMIX_RETENTION(float, F32)
HYDRAMIX_RETENTION(double, F64)
HYDRAMIX_RETENTION(BFloat16, BF16)

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

#define HYDRAMIX_EXPORT_RETENTION(S, name)                                                \
  HWY_EXPORT(Forward##name);                                                              \
  HWY_EXPORT(Backward##name);                                                             \
  template <>                                                                             \
  void retention_forward<S>(const RetentionInputs<S>& in, const RetentionTask& task,      \
                            const StridedRows<S>& y, Arithmetic<S>* states) {             \
    HWY_DYNAMIC_DISPATCH(Forward##name)(in, task, y, states);                             \
  }                                                                                       \
  template <>                                                                             \
  void retention_backward<S>(const RetentionInputs<S>& in, const RetentionTask& task,     \
                             const StridedRows<const S>& dy, const Arithmetic<S>* states, \
                             const RetentionGradients<S>& gradients) {                    \
    HWY_DYNAMIC_DISPATCH(Backward##name)(in, task, dy, states, gradients);                \
  }
HYDRAMIX_EXPORT_RETENTION(float, F32)
HYDRAMIX_EXPORT_RETENTION(double, F64)
HYDRAMIX_EXPORT_RETENTION(BFloat16, BF16)

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
