// SPDX-License-Identifier: Apache-2.0
#include "ops/device_timeline.h"

#include <utility>

#include "ops/device_time.h"
#include "ops/host_copy.h"

namespace hydramix {

DeviceTimeline::DeviceTimeline(torch::Device device)
    : host_zero_(std::chrono::steady_clock::now()) {
  if (!runs_beside_host(device)) return;
  zero_ = on_cuda::record_event();
  on_cuda::wait_for_event(zero_);
  host_zero_ = std::chrono::steady_clock::now();
}

void DeviceTimeline::mark(const std::string& name) {
  if (measures()) marks_.push_back({name, on_cuda::record_event()});
}

DeviceTimeline::Time DeviceTimeline::time_of(const Mark& mark) const {
  const std::chrono::duration<double, std::milli> since(on_cuda::ms_between(zero_, mark.event));
  return host_zero_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(since);
}

std::vector<DeviceTimeline::Span> DeviceTimeline::take(bool wait) {
  std::vector<Span> spans;
  while (marks_.size() > 1) {
    if (wait) on_cuda::wait_for_event(marks_[1].event);
    if (!on_cuda::has_passed(marks_[1].event)) break;
    const auto begin = std::move(marks_.front());
    marks_.pop_front();
    const auto& end = marks_.front();
    if (!end.name.empty()) spans.push_back({end.name, time_of(begin), time_of(end)});
  }
  return spans;
}

}  // namespace hydramix
