// SPDX-License-Identifier: Apache-2.0
// Software prefetch. Included once per instruction set (hence no pragma once).
#if defined(HYDRAMIX_KERNELS_CPU_AHEAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRAMIX_KERNELS_CPU_AHEAD_INL_H_
#undef HYDRAMIX_KERNELS_CPU_AHEAD_INL_H_
#else
#define HYDRAMIX_KERNELS_CPU_AHEAD_INL_H_
#endif

#include <cstdint>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

// Prefetches rows that are needed soon, a few lines each time a product finishes a tile. All
// requests at once would queue up in front of the work that hides them. The hardware prefetcher
// does not help: each row is a short run on a page of its own. Lines go to the L2 cache, because
// the L1 cache is full of the operands of products.
class Ahead {
 public:
  // Fetch() requests this many lines.
  explicit Ahead(int lines = 28) : lines_(lines) {}
  // Adds `rows` runs of `bytes` each, `row` bytes apart.
  void Want(const void* from, int64_t rows, int64_t row, int64_t bytes) {
    wanted_[count_++] = {static_cast<const char*>(from), rows, row, bytes};
  }
  HWY_INLINE void Fetch() {
    for (int line = 0; line < lines_ && at_ < count_; ++line) {
      const Rows& rows = wanted_[at_];
      __builtin_prefetch(rows.from + row_ * rows.row + byte_, 0, 2);
      if ((byte_ += 64) < rows.bytes) continue;
      byte_ = 0;
      if (++row_ < rows.rows) continue;
      row_ = 0;
      ++at_;
    }
  }

 private:
  int lines_;
  struct Rows {
    const char* from;
    int64_t rows, row, bytes;
  } wanted_[9];
  int count_ = 0, at_ = 0;
  int64_t row_ = 0, byte_ = 0;
};

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
