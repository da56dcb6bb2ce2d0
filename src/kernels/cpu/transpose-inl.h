// SPDX-License-Identifier: Apache-2.0
// Transposition of small matrices by vectors. Included once per instruction set (hence no pragma
// once).
#if defined(HYDRAMIX_KERNELS_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRAMIX_KERNELS_CPU_TRANSPOSE_INL_H_
#undef HYDRAMIX_KERNELS_CPU_TRANSPOSE_INL_H_
#else
#define HYDRAMIX_KERNELS_CPU_TRANSPOSE_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
// One vector whose 16-byte pieces come from rows of `from`: piece q from row q * (lanes of a
// piece).
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> Pieces(D d, const T* from, int64_t row) {
  if constexpr (hn::MaxLanes(D()) * sizeof(T) <= 16) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    constexpr int64_t kHalf = hn::MaxLanes(D()) / 2;
    return hn::Combine(d, Pieces(half, from + kHalf * row, row), Pieces(half, from, row));
  }
}

// to[j * to_row + i] = from[i * from_row + j] for i < lanes and as many j as a 16-byte piece has:
// pieces are gathered so that a transposition inside them is enough.
template <class D>
HWY_INLINE void TransposePieces(D d, const float* from, int64_t from_row, float* to,
                                int64_t to_row) {
  const hn::Repartition<double, D> pairs;
  const auto v0 = Pieces(d, from, from_row), v1 = Pieces(d, from + from_row, from_row),
             v2 = Pieces(d, from + 2 * from_row, from_row),
             v3 = Pieces(d, from + 3 * from_row, from_row);
  const auto lower01 = hn::BitCast(pairs, hn::InterleaveLower(d, v0, v1)),
             upper01 = hn::BitCast(pairs, hn::InterleaveUpper(d, v0, v1)),
             lower23 = hn::BitCast(pairs, hn::InterleaveLower(d, v2, v3)),
             upper23 = hn::BitCast(pairs, hn::InterleaveUpper(d, v2, v3));
  hn::Store(hn::BitCast(d, hn::InterleaveLower(pairs, lower01, lower23)), d, to);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(pairs, lower01, lower23)), d, to + to_row);
  hn::Store(hn::BitCast(d, hn::InterleaveLower(pairs, upper01, upper23)), d, to + 2 * to_row);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(pairs, upper01, upper23)), d, to + 3 * to_row);
}
template <class D>
HWY_INLINE void TransposePieces(D d, const double* from, int64_t from_row, double* to,
                                int64_t to_row) {
  const auto v0 = Pieces(d, from, from_row), v1 = Pieces(d, from + from_row, from_row);
  hn::Store(hn::InterleaveLower(d, v0, v1), d, to);
  hn::Store(hn::InterleaveUpper(d, v0, v1), d, to + to_row);
}

#endif  // HWY_TARGET != HWY_SCALAR

// to[j * to_row + i] = from[i * from_row + j] for i < rows, j < columns. `to` and to_row are
// aligned to vectors.
template <class D, typename T = hn::TFromD<D>>
HWY_NOINLINE void Transpose([[maybe_unused]] D d, int64_t rows, int64_t columns, const T* from,
                            int64_t from_row, T* to, int64_t to_row) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kPiece = 16 / sizeof(T);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= rows; i += lanes) {
    int64_t j = 0;
    for (; j + kPiece <= columns; j += kPiece)
      TransposePieces(d, from + i * from_row + j, from_row, to + j * to_row + i, to_row);
    for (; j < columns; ++j)
      for (int64_t r = i; r < i + lanes; ++r) to[j * to_row + r] = from[r * from_row + j];
  }
#endif
  for (; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[j * to_row + i] = from[i * from_row + j];
}

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
