// SPDX-License-Identifier: Apache-2.0
// Measures the memory that LibTorch's CPU allocator hands out.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "hydramix/torch_compat.h"

namespace hydramix::test {

// LibTorch 2 reports the totals in another integer type than 1.13.
template <class Method>
struct TotalOf;
template <class Class, class Total, class... More>
struct TotalOf<void (Class::*)(void*, int64_t, Total, More...)> {
  using Type = Total;
};
using ReportedTotal = TotalOf<decltype(&c10::MemoryReportingInfoBase::reportMemoryUsage)>::Type;

// Counts allocations and frees of this thread from its construction on.
class MemoryCount : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, ReportedTotal, ReportedTotal, c10::Device) override {
    now_ += size;
    peak_ = std::max(peak_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t now() const { return now_; }    // bytes currently allocated
  int64_t peak() const { return peak_; }  // largest number of bytes at one time

 private:
  int64_t now_ = 0, peak_ = 0;
};

inline std::shared_ptr<MemoryCount> count_memory(const std::function<void()>& f) {
  auto count = std::make_shared<MemoryCount>();
  c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, count);
  f();
  return count;
}

}  // namespace hydramix::test
