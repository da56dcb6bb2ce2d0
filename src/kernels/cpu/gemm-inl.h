// SPDX-License-Identifier: Apache-2.0
// Small matrix products on scratch memory, the inner loop of the scan. Included once per
// instruction set (hence no pragma once).
#if defined(HYDRAMIX_KERNELS_CPU_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRAMIX_KERNELS_CPU_GEMM_INL_H_
#undef HYDRAMIX_KERNELS_CPU_GEMM_INL_H_
#else
#define HYDRAMIX_KERNELS_CPU_GEMM_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

#include "kernels/cpu/ahead-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// An operand that is read entry by entry: (i, l) is at data[i * row + l * column].
template <typename T>
struct Entries {
  const T* HWY_RESTRICT data;
  int64_t row, column;
};

// Where a product goes: C = scale (A B) + factor from, rows ld apart, aligned to vectors.
template <typename T>
struct Result {
  T* c;                        // (m, n)
  int64_t ld;                  // of c and from
  const T* from = nullptr;     // (m, n), may be c itself; null: nothing is added
  T factor = 1;                // of from,
  const T* rows = nullptr;     // or (m), row by row,
  const T* columns = nullptr;  // or (n), column by column, aligned to vectors
  const T* scale = nullptr;    // (m), row by row; null: 1

  Result at(int64_t i, int64_t j) const {
    const auto from_here = [](const T* p, int64_t distance) {
      return p == nullptr ? nullptr : p + distance;
    };
    return {c + i * ld + j,
            ld,
            from_here(from, i * ld + j),
            factor,
            from_here(rows, i),
            from_here(columns, j),
            from_here(scale, i)};
  }
};

// R rows by V vectors of C stay in registers while l runs.
template <int R, int V, class D, typename T = hn::TFromD<D>>
HWY_INLINE void GemmTile(D d, int64_t k, Entries<T> a, const T* HWY_RESTRICT b, int64_t ldb,
                         const Result<T>& result) {
  const int64_t lanes = hn::Lanes(d);
  hn::Vec<D> sum[R][V];
  HWY_UNROLL(8)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(8)
    for (int v = 0; v < V; ++v) sum[r][v] = hn::Zero(d);
  }
  for (int64_t l = 0; l < k; ++l) {
    hn::Vec<D> row[V];
    HWY_UNROLL(8)
    for (int v = 0; v < V; ++v) row[v] = hn::Load(d, b + l * ldb + v * lanes);
    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) {
      const auto entry = hn::Set(d, a.data[r * a.row + l * a.column]);
      HWY_UNROLL(8)
      for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(entry, row[v], sum[r][v]);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(8)
    for (int v = 0; v < V; ++v) {
      const int64_t at = r * result.ld + v * lanes;
      auto entry = sum[r][v];
      if (result.scale != nullptr) entry = hn::Mul(hn::Set(d, result.scale[r]), entry);
      if (result.from != nullptr) {
        auto factor = hn::Set(d, result.rows != nullptr ? result.rows[r] : result.factor);
        if (result.columns != nullptr) factor = hn::Load(d, result.columns + v * lanes);
        entry = hn::MulAdd(factor, hn::Load(d, result.from + at), entry);
      }
      hn::Store(entry, d, result.c + at);
    }
  }
}

// Which entries of A may differ from zero. The others are given as zeros, but most are not read.
enum class Shape { kFull, kLower, kUpper };  // all, those with l <= i, those with l >= i

template <int R, int V, class D, typename T = hn::TFromD<D>>
HWY_INLINE void GemmRows(D d, int64_t i, int64_t k, Entries<T> a, const T* HWY_RESTRICT b,
                         int64_t ldb, const Result<T>& result, Shape shape) {
  const int64_t begin = shape == Shape::kUpper ? i : 0;
  const int64_t end = shape == Shape::kLower ? HWY_MIN(i + R, k) : k;
  GemmTile<R, V>(d, end - begin, Entries<T>{a.data + i * a.row + begin * a.column, a.row, a.column},
                 b + begin * ldb, ldb, result.at(i, 0));
}

template <int V, class D, typename T = hn::TFromD<D>>
HWY_INLINE void GemmColumns(D d, int64_t m, int64_t k, Entries<T> a, const T* HWY_RESTRICT b,
                            int64_t ldb, const Result<T>& result, Ahead* ahead, Shape shape) {
  int64_t i = 0;
  for (; i + 6 <= m; i += 6) {
    if (ahead != nullptr) ahead->Fetch();
    GemmRows<6, V>(d, i, k, a, b, ldb, result, shape);
  }
  for (; i + 4 <= m; i += 4) {
    if (ahead != nullptr) ahead->Fetch();
    GemmRows<4, V>(d, i, k, a, b, ldb, result, shape);
  }
  for (; i + 2 <= m; i += 2) GemmRows<2, V>(d, i, k, a, b, ldb, result, shape);
  for (; i < m; ++i) GemmRows<1, V>(d, i, k, a, b, ldb, result, shape);
}

// A (m x k) B (k x n) into `result`. n is a multiple of the vector length; rows of B are
// contiguous, aligned to vectors, ldb apart.
template <class D, typename T = hn::TFromD<D>>
HWY_NOINLINE void Gemm(D d, int64_t m, int64_t n, int64_t k, Entries<T> a, const T* HWY_RESTRICT b,
                       int64_t ldb, const Result<T>& result, Ahead* ahead = nullptr,
                       Shape shape = Shape::kFull) {
  const int64_t lanes = hn::Lanes(d);
  constexpr int kWide = HWY_TARGET <= HWY_AVX3 ? 4 : 2;  // 24 of 32, or 12 of 16 registers
  int64_t j = 0;
  for (; j + kWide * lanes <= n; j += kWide * lanes)
    GemmColumns<kWide>(d, m, k, a, b + j, ldb, result.at(0, j), ahead, shape);
  if constexpr (kWide > 2)
    for (; j + 2 * lanes <= n; j += 2 * lanes)
      GemmColumns<2>(d, m, k, a, b + j, ldb, result.at(0, j), ahead, shape);
  for (; j < n; j += lanes) GemmColumns<1>(d, m, k, a, b + j, ldb, result.at(0, j), ahead, shape);
}

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
