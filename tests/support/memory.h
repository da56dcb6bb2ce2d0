// SPDX-License-Identifier: Apache-2.0
// How much memory LibTorch's CPU allocator gives out while something runs.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "hydramix/torch_compat.h"

namespace hydramix::test {

// LibTorch 2 tells the totals as another integer type than 1.13.
template <class Method>
struct TotalOf;
template <class Class, class Total, class... More>
struct TotalOf<void (Class::*)(void*, int64_t, Total, More...)> {
  using Type = Total;
};
using ReportedTotal = TotalOf<decltype(&c10::MemoryReportingInfoBase::reportMemoryUsage)>::Type;

// Counts what is allocated and freed in this thread; what existed before counts as nothing.
class MemoryCount : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, ReportedTotal, ReportedTotal, c10::Device) override {
    now_ += size;
    peak_ = std::max(peak_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t now() const { return now_; }    // bytes that are still there
  int64_t peak() const { return peak_; }  // the most bytes there were at a time

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
