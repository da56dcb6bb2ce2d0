// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/product.h"

#include <algorithm>

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/product.cpp"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/cpu/ahead-inl.h"
#include "kernels/cpu/transpose-inl.h"

#ifndef HYDRAMIX_KERNELS_CPU_PRODUCT_ONCE_
#define HYDRAMIX_KERNELS_CPU_PRODUCT_ONCE_
namespace hydramix::kernels {

// Entries from one packed row of A to the next. Longer than a row, so that the rows of a tile fall
// into different sets of the L1 cache.
constexpr int64_t kPackedRow = kProductDepth + 16;
constexpr int64_t kRunsInCache = 4;          // runs of k that are packed together
constexpr int64_t kMaxRows = 1024;           // of a block
constexpr int64_t kMaxTileRows = 14;         // rows of a tile, in any instruction set
constexpr int64_t kPanel = kProductColumns;  // the widest panel

// k in runs of equal length, a multiple of 4 for the transposition.
struct Runs {
  explicit Runs(int64_t k)
      : count(std::max<int64_t>(1, (k + kProductDepth - 1) / kProductDepth)),
        length(((k + count - 1) / count + 3) / 4 * 4) {}
  int64_t count, length;
};

}  // namespace hydramix::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A tile of C: kTileRows rows by 2 vectors, all in registers beside a row of B and an entry of A.
// x86 before AVX-512 has 16 registers, everything else 32.
constexpr int kVectors = 2;
constexpr int kTileRows = HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3 ? 6 : 14;
static_assert(kTileRows <= kMaxTileRows);

// The initial value of a tile: from[r * row + column], or zero if from is null. In the first run of
// k it is the bias (row = 0), C or zero; later C itself.
template <typename T>
struct Start {
  const T* from;
  int64_t row;
};

// C (R x 2 vectors) = start + A (R x k) B (k x 2 vectors). Rows of A are kPackedRow apart, those of
// B follow each other.
template <int R, class D, typename T = hn::TFromD<D>>
HWY_NOINLINE void ProductTile(D d, int64_t k, const T* HWY_RESTRICT a, const T* HWY_RESTRICT b,
                              Start<T> start, T* c, int64_t c_row) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> sum[R][kVectors];
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
    hwy::Prefetch(c + r * c_row);
    hwy::Prefetch(c + r * c_row + kVectors * lanes - 1);
  }
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t l = 0; l < k; ++l) {
    // The next tile's rows follow these: a line of them in every step.
    hwy::Prefetch(a + R * kPackedRow + l * kLine);
    hn::Vec<D> row[kVectors];
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) row[v] = hn::Load(d, b + (l * kVectors + v) * lanes);
    HWY_UNROLL(16)
    for (int r = 0; r < R; ++r) {
      const auto entry = hn::Set(d, a[r * kPackedRow + l]);
      HWY_UNROLL(2)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(entry, row[v], sum[r][v]);
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) {
      const auto total =
          start.from == nullptr
              ? sum[r][v]
              : hn::Add(hn::LoadU(d, start.from + r * start.row + v * lanes), sum[r][v]);
      hn::StoreU(total, d, c + r * c_row + v * lanes);
    }
  }
}

template <int R, class D, typename T = hn::TFromD<D>>
HWY_INLINE void ProductRows(D d, int64_t rows, int64_t k, const T* a, const T* b, Start<T> start,
                            T* c, int64_t c_row) {
  if (rows == R) return ProductTile<R>(d, k, a, b, start, c, c_row);
  if constexpr (R > 1) ProductRows<R - 1>(d, rows, k, a, b, start, c, c_row);
}

// Not memcpy: the call costs as much as copying a short row.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void CopyRows(D d, int64_t rows, int64_t columns, const T* HWY_RESTRICT from,
                         int64_t from_row, T* HWY_RESTRICT to, int64_t to_row) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < rows; ++i, from += from_row, to += to_row) {
    int64_t j = 0;
    for (; j + lanes <= columns; j += lanes) hn::StoreU(hn::LoadU(d, from + j), d, to + j);
    for (; j < columns; ++j) to[j] = from[j];
  }
}

// `rows` rows of A and `length` columns, from entry (row, l) on.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void PackA(D d, const ProductParams<T>& p, int64_t row, int64_t rows, int64_t l,
                      int64_t length, T* to) {
  const T* from = p.a + row * p.a_row + l * p.a_column;
  if (p.a_column == 1)
    CopyRows(d, rows, length, from, p.a_row, to, kPackedRow);
  else
    Transpose(d, length, rows, from, p.a_column, to, kPackedRow);
}

// `length` rows of B and `columns` columns, from entry (l, column) on, with zeros up to `width`.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void PackB(D d, const ProductParams<T>& p, int64_t l, int64_t length, int64_t column,
                      int64_t columns, int64_t width, T* to) {
  const T* from = p.b + l * p.b_row + column * p.b_column;
  if (p.b_column == 1)
    CopyRows(d, length, columns, from, p.b_row, to, width);
  else
    Transpose(d, columns, length, from, p.b_column, to, width);
  if (columns < width)
    for (int64_t i = 0; i < length; ++i)
      std::fill(to + i * width + columns, to + (i + 1) * width, T(0));
}

// Prefetches what PackB with the same arguments will read, spread over `calls` of Fetch().
template <typename T>
Ahead PanelAhead(const ProductParams<T>& p, int64_t l, int64_t length, int64_t column,
                 int64_t columns, int64_t calls) {
  constexpr int64_t kSize = sizeof(T);
  const bool by_rows = p.b_column == 1;
  const int64_t rows = by_rows ? length : columns;
  const int64_t bytes = (by_rows ? columns : length) * kSize;
  const int64_t lines = rows * ((bytes + 63) / 64);
  Ahead ahead(static_cast<int>((lines + calls - 1) / calls));
  if (lines > 0)
    ahead.Want(p.b + l * p.b_row + column * p.b_column, rows,
               (by_rows ? p.b_row : p.b_column) * kSize, bytes);
  return ahead;
}

template <typename T>
void Product(const ProductParams<T>& p, const ProductBlock& block, T* scratch) {
  const hn::ScalableTag<T> d;
  const int64_t width = kVectors * static_cast<int64_t>(hn::Lanes(d));
  const Runs runs(p.k);
  T* edge = scratch;                                // a tile that reaches beyond the last column
  T* packed_b = edge + kMaxTileRows * kPanel;       // (length, width)
  T* packed_a = packed_b + kProductDepth * kPanel;  // (runs, rows, kPackedRow)
  const int64_t tiles = (block.rows + kTileRows - 1) / kTileRows;
  for (int64_t first = 0; first < runs.count; first += kRunsInCache) {
    const int64_t end = std::min(runs.count, first + kRunsInCache);
    const auto length_of = [&](int64_t run) {
      return std::clamp<int64_t>(p.k - run * runs.length, 0, runs.length);
    };
    for (int64_t run = first; run < end; ++run)
      PackA(d, p, block.row, block.rows, run * runs.length, length_of(run),
            packed_a + (run - first) * block.rows * kPackedRow);
    for (int64_t column = block.column; column < block.column + block.columns; column += width) {
      const int64_t columns = std::min(width, block.column + block.columns - column);
      for (int64_t run = first; run < end; ++run) {
        const int64_t length = length_of(run);
        PackB(d, p, run * runs.length, length, column, columns, width, packed_b);
        const T* a = packed_a + (run - first) * block.rows * kPackedRow;
        const bool from_c = run > 0 || p.add;
        const bool last = run + 1 == end;
        const int64_t next_run = last ? first : run + 1;
        const int64_t next_column = last ? column + width : column;
        const int64_t next_columns =
            std::clamp<int64_t>(block.column + block.columns - next_column, 0, width);
        Ahead ahead = PanelAhead(p, next_run * runs.length, length_of(next_run), next_column,
                                 next_columns, tiles);
        // Tiles of nearly equal height: a last tile of two rows would take as long as a full one.
        for (int64_t t = 0; t < tiles; ++t) {
          ahead.Fetch();
          const int64_t top = block.rows * t / tiles;
          const int64_t rows = block.rows * (t + 1) / tiles - top;
          T* c = p.c + (block.row + top) * p.c_row + column;
          const Start<T> start = from_c              ? Start<T>{c, p.c_row}
                                 : p.bias != nullptr ? Start<T>{p.bias + column, 0}
                                                     : Start<T>{nullptr, 0};
          if (columns == width) {
            ProductRows<kTileRows>(d, rows, length, a + top * kPackedRow, packed_b, start, c,
                                   p.c_row);
            continue;
          }
          if (start.from != nullptr)
            for (int64_t r = 0; r < rows; ++r)
              std::copy_n(start.from + r * start.row, columns, edge + r * width);
          ProductRows<kTileRows>(d, rows, length, a + top * kPackedRow, packed_b,
                                 start.from == nullptr ? start : Start<T>{edge, width}, edge,
                                 width);
          CopyRows(d, rows, columns, edge, width, c, p.c_row);
        }
      }
    }
  }
}

void ProductF32(const ProductParams<float>& p, const ProductBlock& block, float* scratch) {
  Product(p, block, scratch);
}
void ProductF64(const ProductParams<double>& p, const ProductBlock& block, double* scratch) {
  Product(p, block, scratch);
}

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <unistd.h>

namespace hydramix::kernels {
namespace {

// Limit for packed A: three quarters of a core's L2 cache.
int64_t packed_bytes() {
  static const int64_t bytes = [] {
    const int64_t cache = sysconf(_SC_LEVEL2_CACHE_SIZE);  // 0 or -1 if unknown
    return std::clamp<int64_t>(cache, 512 << 10, 4 << 20) / 4 * 3;
  }();
  return bytes;
}

}  // namespace

template <typename T>
int64_t product_rows(int64_t k) {
  const int64_t runs = std::min(kRunsInCache, Runs(k).count);
  const int64_t rows = packed_bytes() / static_cast<int64_t>(sizeof(T)) / (runs * kPackedRow);
  return std::min(kMaxRows, rows);
}
template int64_t product_rows<float>(int64_t);
template int64_t product_rows<double>(int64_t);

template <typename T>
int64_t product_scratch(int64_t rows, int64_t k) {
  const int64_t runs = std::min(kRunsInCache, Runs(k).count);
  return (kMaxTileRows + kProductDepth) * kPanel + rows * runs * kPackedRow;
}
template int64_t product_scratch<float>(int64_t, int64_t);
template int64_t product_scratch<double>(int64_t, int64_t);

HWY_EXPORT(ProductF32);
template <>
void product(const ProductParams<float>& p, const ProductBlock& block, float* scratch) {
  HWY_DYNAMIC_DISPATCH(ProductF32)(p, block, scratch);
}
HWY_EXPORT(ProductF64);
template <>
void product(const ProductParams<double>& p, const ProductBlock& block, double* scratch) {
  HWY_DYNAMIC_DISPATCH(ProductF64)(p, block, scratch);
}

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
