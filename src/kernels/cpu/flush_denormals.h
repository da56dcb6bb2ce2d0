// SPDX-License-Identifier: Apache-2.0
// Numbers below the smallest normal one count as zero while an object of this class lives, in its
// thread. Arithmetic with them takes a hundred times as long, and states that decay for long
// enough are full of them.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace hydramix::kernels {

class FlushDenormals {
 public:
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
#if defined(__SSE__)
  FlushDenormals() : before_(_mm_getcsr()) {
    constexpr unsigned kResults = 0x8000, kOperands = 0x0040;
    _mm_setcsr(before_ | kResults | kOperands);
  }
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#elif defined(__aarch64__)
  FlushDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    constexpr unsigned long kBoth = 1UL << 24;
    asm volatile("msr fpcr, %0" : : "r"(before_ | kBoth));
  }
  ~FlushDenormals() { asm volatile("msr fpcr, %0" : : "r"(before_)); }

 private:
  unsigned long before_ = 0;
#else
  FlushDenormals() = default;
#endif
};

}  // namespace hydramix::kernels
