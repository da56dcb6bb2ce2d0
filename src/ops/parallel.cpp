// SPDX-License-Identifier: Apache-2.0
#include "ops/parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>

#include "kernels/cpu/flush_denormals.h"
#include "kernels/cpu/isa.h"

// The thread sanitizer does not see how OpenMP synchronizes its threads with the caller, so these
// annotations tell it. Threads read the call's arguments before their annotation runs, so this file
// is compiled without the sanitizer.
// NOLINTBEGIN(bugprone-reserved-identifier): the sanitizer's names.
#if defined(HYDRAMIX_TELL_THREAD_SANITIZER)
extern "C" void __tsan_acquire(void*);
extern "C" void __tsan_release(void*);
#else
static void __tsan_acquire(void*) {}
static void __tsan_release(void*) {}
#endif
// NOLINTEND(bugprone-reserved-identifier)

namespace hydramix {

void parallel(int64_t count, const std::function<void(int64_t)>& task) {
  kernels::use_instruction_set_of_environment();
  if (count == 1) {
    const kernels::FlushDenormals flush;
    return task(0);
  }
  std::atomic<int64_t> next{0};
  char begin = 0, end = 0;
  __tsan_release(&begin);
  at::parallel_for(0, std::min<int64_t>(count, at::get_num_threads()), 1, [&](int64_t, int64_t) {
    __tsan_acquire(&begin);
    const kernels::FlushDenormals flush;
    for (int64_t i = next++; i < count; i = next++) task(i);
    __tsan_release(&end);
  });
  __tsan_acquire(&end);
}

}  // namespace hydramix
