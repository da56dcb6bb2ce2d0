// SPDX-License-Identifier: Apache-2.0
// The part of a chunk that the heads of a group share: b and c transposed, and C B^T. Included once
// per instruction set (hence no pragma once).
#if defined(HYDRAMIX_KERNELS_CPU_SCAN_GROUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRAMIX_KERNELS_CPU_SCAN_GROUP_INL_H_
#undef HYDRAMIX_KERNELS_CPU_SCAN_GROUP_INL_H_
#else
#define HYDRAMIX_KERNELS_CPU_SCAN_GROUP_INL_H_
#endif

#include "kernels/cpu/scan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

// b of a chunk, (rows, padded N).
template <typename S, typename T>
HWY_INLINE void LoadKeys(const ChunkShape& s, const StridedRows<const S>& b, const ScanChunk& chunk,
                         int64_t g, T* to) {
  for (int64_t t = 0; t < chunk.rows; ++t)
    LoadRow(b.data + (chunk.begin + t) * b.stride + g * s.N, s.N, to + t * ChunkShape::padded(s.N));
}

// With a shift, row t reads the state one position before or after it: the position of its c
// relative to t, and whether that is outside of the sequence.
struct QueryPlaces {
  QueryPlaces(const ChunkShape& s, const ScanChunk& of, int direction)
      : chunk(of), offset(direction == kForward ? -s.shift : s.shift) {}
  const ScanChunk& chunk;
  int64_t offset;
  bool outside(int64_t t) const {
    return (chunk.first && t + offset < 0) || (chunk.last && t + offset >= chunk.rows);
  }
  int64_t token(int64_t t) const { return chunk.begin + t + offset; }
};

// c of a chunk as its rows read it, (rows, padded N); zeros where there is none.
template <typename S, typename T>
HWY_INLINE void LoadQueries(const ChunkShape& s, const StridedRows<const S>& c,
                            const ScanChunk& chunk, int direction, int64_t g, T* to) {
  const QueryPlaces places(s, chunk, direction);
  const int64_t Np = ChunkShape::padded(s.N);
  for (int64_t t = 0; t < chunk.rows; ++t)
    if (places.outside(t))
      std::memset(to + t * Np, 0, sizeof(T) * static_cast<size_t>(Np));
    else
      LoadRow(c.data + places.token(t) * c.stride + g * s.N, s.N, to + t * Np);
}

// Prefetches b and c of a group.
template <typename S>
HWY_INLINE void WantGroup(Ahead& ahead, const ChunkShape& s, const ScanInputs<S>& in,
                          const ScanChunk& chunk, int64_t g) {
  constexpr int64_t kBytes = sizeof(S);
  for (const auto& [dt, b, c] : in.direction)
    for (const auto& rows : {b, c})
      if (rows.data != nullptr)
        ahead.Want(rows.data + chunk.begin * rows.stride + g * s.N, chunk.rows,
                   rows.stride * kBytes, s.N * kBytes);
}

// Fills the block of a group (GroupPlan).
template <typename T>
class GroupMemory {
 public:
  GroupMemory(const ChunkShape& shape, T* memory)
      : s(shape), rows_(memory), upper_(memory + s.T() * ChunkShape::padded(s.N)) {}
  static int64_t Size(const ChunkShape& s) {
    return s.T() * ChunkShape::padded(s.N) + s.tile * s.T();
  }

  template <typename S>
  HWY_INLINE void Keys(const ScanInputs<S>& in, const ScanChunk& chunk, int direction, int64_t g,
                       T* group) const {
    LoadKeys(s, in.direction[direction].b, chunk, g, rows_);
    Transpose(rows_, ChunkShape::padded(s.N), chunk.rows, s.N, group + GroupPlan(s).b(direction),
              s.T());
  }

  template <typename S>
  HWY_INLINE void Queries(const ScanInputs<S>& in, const ScanChunk& chunk, int direction, int64_t g,
                          T* group) const {
    LoadQueries(s, in.direction[direction].c, chunk, direction, g, rows_);
    Transpose(rows_, ChunkShape::padded(s.N), chunk.rows, s.N, group + GroupPlan(s).c(direction),
              s.T());
  }

  template <typename S>
  HWY_INLINE void Fill(const ScanInputs<S>& in, const ScanChunk& chunk, int64_t g, T* group) const {
    const hn::ScalableTag<T> d;
    const GroupPlan plan(s);
    const int64_t rows = chunk.rows, ld = s.T(), columns = ChunkShape::padded(rows);
    T* cb = group + plan.cb();
    for (const int direction : {kForward, kBackward}) {
      T* out = direction == kForward ? cb : upper_;
      if (!s.on[direction]) {
        if (s.causal()) continue;
        for (int64_t i = 0; i < rows; ++i) std::memset(out + i * ld, 0, sizeof(T) * columns);
        continue;
      }
      Keys(in, chunk, direction, g, group);
      Queries(in, chunk, direction, g, group);
      const T* b = group + plan.b(direction);
      const Entries<T> queries{group + plan.c(direction), 1, ld};
      if (s.causal())
        GemmBelow(rows, s.N, queries, b, ld, cb, ld, nullptr);
      else
        Gemm(d, rows, columns, s.N, queries, b, ld, Result<T>{.c = out, .ld = ld});
    }
    if (s.causal()) return;
    T* diagonal = group + plan.diagonal();
    for (int64_t i = 0; i < rows; ++i) {
      diagonal[i] = upper_[i * ld + i];
      for (int64_t j = i + 1; j < columns; ++j) cb[i * ld + j] = upper_[i * ld + j];
    }
  }

 private:
  const ChunkShape s;
  T *rows_, *upper_;
};

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
