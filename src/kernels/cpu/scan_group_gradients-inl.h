// SPDX-License-Identifier: Apache-2.0
// The gradients of b and c, from those of C B^T and of the states, both summed over the heads of a
// group. Included once per instruction set (hence no pragma once).
#if defined(HYDRAMIX_KERNELS_CPU_SCAN_GROUP_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRAMIX_KERNELS_CPU_SCAN_GROUP_GRADIENTS_INL_H_
#undef HYDRAMIX_KERNELS_CPU_SCAN_GROUP_GRADIENTS_INL_H_
#else
#define HYDRAMIX_KERNELS_CPU_SCAN_GROUP_GRADIENTS_INL_H_
#endif

#include "kernels/cpu/scan_group-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

// The gradients of b and c of a group in a chunk, from the contributions of its heads.
template <typename T>
class GroupGradients {
 public:
  GroupGradients(const ChunkShape& shape, T* memory)
      : s(shape),
        Np(ChunkShape::padded(s.N)),
        half_(memory),
        rows_(half_ + s.tile * s.T()),
        out_(rows_ + s.T() * Np) {}
  static int64_t Size(const ChunkShape& s) {
    return s.tile * s.T() + 2 * s.T() * ChunkShape::padded(s.N);
  }

  // `sum` is a block of PartialPlan.
  template <typename S>
  HWY_INLINE void Store(const ScanBackward<S>& p, const ScanChunk& chunk, int64_t g,
                        const T* sum) const {
    const hn::ScalableTag<T> d;
    const PartialPlan plan(s);
    const int64_t rows = chunk.rows, ld = s.T();
    for (const int direction : {kForward, kBackward}) {
      if (!s.on[direction]) continue;
      const bool forward = direction == kForward;
      const auto& in = p.in.direction[direction];
      const auto& to = p.out.direction[direction];
      Half(sum, forward, rows);
      // db = half^T c, and what came through states.
      LoadQueries(s, in.c, chunk, direction, g, rows_);
      Transpose(sum + plan.b(direction), ld, s.N, rows, out_, Np);
      Gemm(d, rows, Np, rows, Entries<T>{half_, 1, ld}, rows_, Np,
           Result<T>{.c = out_, .ld = Np, .from = out_}, nullptr,
           forward ? Shape::kUpper : Shape::kLower);
      for (int64_t t = 0; t < rows; ++t)
        StoreRow(out_ + t * Np, s.N, to.b.data + (chunk.begin + t) * to.b.stride + g * s.N);
      // dc = half b. The last c of the sequence was not read.
      LoadKeys(s, in.b, chunk, g, rows_);
      Transpose(sum + plan.c(direction), ld, s.N, rows, out_, Np);
      Gemm(d, rows, Np, rows, Entries<T>{half_, ld, 1}, rows_, Np,
           Result<T>{.c = out_, .ld = Np, .from = out_}, nullptr,
           forward ? Shape::kLower : Shape::kUpper);
      const QueryPlaces places(s, chunk, direction);
      for (int64_t t = 0; t < rows; ++t)
        if (!places.outside(t))
          StoreRow(out_ + t * Np, s.N, to.c.data + places.token(t) * to.c.stride + g * s.N);
      if (s.shift == 1 && (forward ? chunk.last : chunk.first)) {
        const int64_t unread = forward ? chunk.begin + rows - 1 : chunk.begin;
        std::memset(out_, 0, sizeof(T) * static_cast<size_t>(Np));
        StoreRow(out_, s.N, to.c.data + unread * to.c.stride + g * s.N);
      }
    }
  }

 private:
  // A direction's own triangle of d(C B^T).
  HWY_INLINE void Half(const T* sum, bool forward, int64_t rows) const {
    const PartialPlan plan(s);
    const int64_t ld = s.T(), columns = ChunkShape::padded(rows);
    for (int64_t i = 0; i < rows; ++i) {
      const T* from = sum + plan.cb() + i * ld;
      T* to = half_ + i * ld;
      const int64_t split = HWY_MAX(0, i - s.shift + 1);  // the columns below the diagonal
      const auto zero = [](T* at, int64_t n) {
        std::memset(at, 0, sizeof(T) * static_cast<size_t>(n));
      };
      const auto copy = [&](int64_t at, int64_t n) {
        std::memcpy(to + at, from + at, sizeof(T) * static_cast<size_t>(n));
      };
      if (forward) {
        copy(0, split);
        zero(to + split, columns - split);
      } else {
        zero(to, i + 1);
        copy(i + 1, columns - i - 1);
        if (s.shift == 0) to[i] = sum[plan.diagonal() + i];
      }
    }
  }

  const ChunkShape s;
  const int64_t Np;
  T *half_, *rows_, *out_;
};

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
