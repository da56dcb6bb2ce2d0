// SPDX-License-Identifier: Apache-2.0
// Shared by the forward and the backward scan: loading, decays, and the matrix of a chunk.
// Included once per instruction set (hence no pragma once).
#if defined(HYDRAMIX_KERNELS_CPU_SCAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRAMIX_KERNELS_CPU_SCAN_INL_H_
#undef HYDRAMIX_KERNELS_CPU_SCAN_INL_H_
#else
#define HYDRAMIX_KERNELS_CPU_SCAN_INL_H_
#endif

#include <cstring>

#include "kernels/cpu/gemm-inl.h"
#include "kernels/cpu/rows-inl.h"
#include "kernels/cpu/scan.h"
#include "kernels/cpu/softplus-inl.h"
#include "kernels/cpu/transpose-inl.h"
#include "kernels/cpu/workspace.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

// A step dt A is at least this. exp() of a smaller one is zero too, but in a prefix sum it would
// swallow the digits of the others.
template <typename T>
inline constexpr double kLeastLog = sizeof(T) == 4 ? -120 : -800;

// Runs over n values, n a multiple of ChunkShape::kPad.
template <typename T, class F>
HWY_INLINE void ForVectors(int64_t n, F&& f) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t i = 0; i < n; i += lanes) f(d, i);
}

// to (padded n) = the n values at `from`, then zeros.
template <typename S, typename T>
HWY_INLINE void LoadRow(const S* HWY_RESTRICT from, int64_t n, T* HWY_RESTRICT to) {
  ForVectors<T>(ChunkShape::padded(n), [&](auto d, int64_t i) HWY_ATTR {
    hn::Store(LoadN(d, from + i, n - i), d, to + i);
  });
}

template <typename S, typename T>
HWY_INLINE void StoreRow(const T* HWY_RESTRICT from, int64_t n, S* HWY_RESTRICT to) {
  ForVectors<T>(ChunkShape::padded(n), [&](auto d, int64_t i) HWY_ATTR {
    StoreN(hn::Load(d, from + i), d, to + i, n - i);
  });
}

// to (n, ld) = the transpose of from (rows, n); zeros after the rows, up to a whole vector.
template <typename T>
HWY_INLINE void Transpose(const T* HWY_RESTRICT from, int64_t from_ld, int64_t rows, int64_t n,
                          T* HWY_RESTRICT to, int64_t ld) {
  Transpose(hn::ScalableTag<T>(), rows, n, from, from_ld, to, ld);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t t = rows; t < ChunkShape::padded(rows); ++t) to[i * ld + t] = 0;
}

// to (N, T) = from (N, T) scaled column by column.
template <typename T>
HWY_INLINE void ScaleColumns(const T* HWY_RESTRICT from, const T* HWY_RESTRICT scale, int64_t N,
                             int64_t columns, int64_t ld, T* HWY_RESTRICT to) {
  for (int64_t n = 0; n < N; ++n)
    ForVectors<T>(columns, [&](auto d, int64_t t) HWY_ATTR {
      hn::Store(hn::Mul(hn::Load(d, from + n * ld + t), hn::Load(d, scale + t)), d,
                to + n * ld + t);
    });
}

// Computes the lower triangle of A (m x k) B (k x m). Vectors that straddle the diagonal are
// computed whole.
template <typename T>
HWY_INLINE void GemmBelow(int64_t m, int64_t k, Entries<T> a, const T* b, int64_t ldb, T* c,
                          int64_t ld, Ahead* ahead) {
  for (int64_t i = 0; i < m; i += ChunkShape::kPad)
    Gemm(hn::ScalableTag<T>(), HWY_MIN(ChunkShape::kPad, m - i), i + ChunkShape::kPad, k,
         Entries<T>{a.data + i * a.row, a.row, a.column}, b, ldb,
         Result<T>{.c = c + i * ld, .ld = ld}, ahead);
}

// The decays of one direction and head inside a chunk. With s the prefix sums of dt A,
//
//   forward   row i is at s[i + 1 - shift], column j at s[j + 1]; decay exp(row - column)
//   backward  row i is at s[i + shift],     column j at s[j];     decay exp(column - row)
//
// A float32 difference of large sums would be mostly rounding error, so each sum is kept as two
// floats.
template <typename T>
struct Decays {
  Decays(T* memory, int64_t ld)
      : row(memory),
        row_low(row + ld),
        column(row_low + ld),
        column_low(column + ld),
        enter(column_low + ld),
        leave(enter + ld),
        weight(leave + ld) {}
  static int64_t Size(int64_t ld) { return 7 * ld; }

  T *row, *row_low, *column, *column_low;
  T* enter;   // from the border at which the state enters, to row i
  T* leave;   // from column j to the border at which the state leaves
  T* weight;  // leave dt
  T whole;    // from border to border

  void Set(const ChunkShape& s, int direction, const double* sums, const T* dt, int64_t rows) {
    const int64_t columns = ChunkShape::padded(rows);
    const double end = sums[rows];
    for (int64_t t = 0; t < columns; ++t) {
      const double r = sums[HWY_MIN(direction == kForward ? t + 1 - s.shift : t + s.shift, rows)];
      const double c = sums[HWY_MIN(direction == kForward ? t + 1 : t, rows)];
      row[t] = static_cast<T>(r);
      row_low[t] = static_cast<T>(r - static_cast<double>(row[t]));
      column[t] = static_cast<T>(c);
      column_low[t] = static_cast<T>(c - static_cast<double>(column[t]));
      enter[t] = static_cast<T>(direction == kForward ? r : end - r);
      leave[t] = static_cast<T>(direction == kForward ? end - c : c);
    }
    ForVectors<T>(columns, [&](auto d, int64_t t) HWY_ATTR {
      hn::Store(hn::Exp(d, hn::Load(d, enter + t)), d, enter + t);
      const auto left = hn::Exp(d, hn::Load(d, leave + t));
      hn::Store(left, d, leave + t);
      hn::Store(hn::Mul(left, hn::Load(d, dt + t)), d, weight + t);
    });
    const hn::CappedTag<T, 1> one;
    whole = hn::GetLane(hn::Exp(one, hn::Set(one, static_cast<T>(end))));
  }
};

// M (rows, T) of a chunk and head, both triangles and the diagonal, from C B^T of its group. With
// `decay` (rows, T) the bare exponentials are kept as well, zero on the diagonal that delta fills;
// without the backward direction, only those of vectors that reach into the lower triangle.
template <typename T>
HWY_NOINLINE void ChunkMatrix(const ChunkShape& s, int64_t rows, const T* HWY_RESTRICT cb,
                              const T* HWY_RESTRICT cb_diagonal, const Decays<T>& forward,
                              const T* HWY_RESTRICT dt_f, const Decays<T>& backward,
                              const T* HWY_RESTRICT dt_b, const StridedRows<const T>& delta,
                              T* HWY_RESTRICT M, T* HWY_RESTRICT decay) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d), ld = s.T(), columns = ChunkShape::padded(rows);
  for (int64_t i = 0; i < rows; ++i) {
    const auto row_f = hn::Set(d, forward.row[i]), low_f = hn::Set(d, forward.row_low[i]);
    const auto row_b = hn::Set(d, backward.row[i]), low_b = hn::Set(d, backward.row_low[i]);
    const auto below = [&](int64_t j) HWY_ATTR {
      return hn::Add(hn::Sub(row_f, hn::Load(d, forward.column + j)),
                     hn::Sub(low_f, hn::Load(d, forward.column_low + j)));
    };
    const auto above = [&](int64_t j) HWY_ATTR {
      return hn::Add(hn::Sub(hn::Load(d, backward.column + j), row_b),
                     hn::Sub(hn::Load(d, backward.column_low + j), low_b));
    };
    const int64_t last = i - s.shift;  // the last column below the diagonal
    for (int64_t j = 0; j < columns; j += lanes) {
      hn::Vec<decltype(d)> exponent, dt;
      if (j + lanes - 1 <= last) {
        exponent = below(j);
        dt = hn::Load(d, dt_f + j);
      } else if (s.causal()) {
        if (j > i) {
          hn::Store(hn::Zero(d), d, M + i * ld + j);
          continue;
        }
        const auto is_below = hn::FirstN(d, static_cast<size_t>(HWY_MAX(0, last + 1 - j)));
        const auto e = FastExp(d, hn::IfThenElseZero(is_below, below(j)));
        if (decay != nullptr) hn::Store(e, d, decay + i * ld + j);
        const auto m = hn::Mul(hn::Load(d, cb + i * ld + j), hn::Mul(e, hn::Load(d, dt_f + j)));
        hn::Store(hn::IfThenElseZero(is_below, m), d, M + i * ld + j);
        continue;
      } else if (j > last) {
        exponent = above(j);
        dt = hn::Load(d, dt_b + j);
      } else {
        const auto is_below = hn::FirstN(d, static_cast<size_t>(last + 1 - j));
        exponent = hn::IfThenElse(is_below, below(j), above(j));
        dt = hn::IfThenElse(is_below, hn::Load(d, dt_f + j), hn::Load(d, dt_b + j));
      }
      const auto e = FastExp(d, exponent);
      if (decay != nullptr) hn::Store(e, d, decay + i * ld + j);
      hn::Store(hn::Mul(hn::Load(d, cb + i * ld + j), hn::Mul(e, dt)), d, M + i * ld + j);
    }
    if (s.shift == 1) {
      M[i * ld + i] = delta.data[i * delta.stride];
      if (decay != nullptr) decay[i * ld + i] = 0;
    } else {
      const T both = s.causal() ? T{0} : cb_diagonal[i] * dt_b[i];
      M[i * ld + i] += both + delta.data[i * delta.stride];
    }
  }
}

// A chunk's rows of one head, (rows, Pp).
template <typename S, typename T>
HWY_INLINE void LoadHead(const ChunkShape& s, const ScanChunk& chunk, const StridedRows<S>& from,
                         int64_t h, T* to) {
  for (int64_t t = 0; t < chunk.rows; ++t)
    LoadRow(from.data + (chunk.begin + t) * from.stride + h * s.P, s.P, to + t * s.Pp());
}
template <typename S, typename T>
HWY_INLINE void StoreHead(const ChunkShape& s, const ScanChunk& chunk, const T* from, int64_t h,
                          const StridedRows<S>& to) {
  for (int64_t t = 0; t < chunk.rows; ++t)
    StoreRow(from + t * s.Pp(), s.P, to.data + (chunk.begin + t) * to.stride + h * s.P);
}
// Prefetches them.
template <typename S>
HWY_INLINE void WantHead(Ahead& ahead, const ChunkShape& s, const ScanChunk& chunk,
                         const StridedRows<S>& rows, int64_t h) {
  constexpr int64_t kBytes = sizeof(S);
  ahead.Want(rows.data + chunk.begin * rows.stride + h * s.P, chunk.rows, rows.stride * kBytes,
             s.P * kBytes);
}

// delta of one head and a chunk, per token or (stride 0) the same for all tokens.
template <typename S>
HWY_INLINE StridedRows<const Arithmetic<S>> DeltaOf(const ScanInputs<S>& in, const ScanChunk& chunk,
                                                    int64_t h) {
  if (in.diagonal != nullptr) return {in.diagonal + h, 0};
  return {in.delta.data + chunk.begin * in.delta.stride + h, in.delta.stride};
}

// The heads of a task.
struct HeadRange {
  int64_t group, task, begin, end;
};
inline HeadRange HeadsOf(const ChunkShape& s, int64_t task) {
  const int64_t group = task / s.tasks_per_group(), part = task % s.tasks_per_group();
  const int64_t begin = group * s.heads_per_group() + part * ChunkShape::kTaskHeads;
  return {group, part, begin,
          HWY_MIN(begin + ChunkShape::kTaskHeads, (group + 1) * s.heads_per_group())};
}

// One block of scratch memory, cut into pieces.
template <typename T>
class Scratch {
 public:
  explicit Scratch(int64_t size) : memory_(make_workspace<T>(size)) {}
  T* Take(int64_t size) {
    T* piece = memory_.get() + used_;
    used_ += ChunkShape::padded(size);
    return piece;
  }

 private:
  hwy::AlignedFreeUniquePtr<T[]> memory_;
  int64_t used_ = 0;
};

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
