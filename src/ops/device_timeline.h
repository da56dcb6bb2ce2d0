// SPDX-License-Identifier: Apache-2.0
// The times at which a GPU did the work that this thread launched. On the CPU, which works while it
// launches, there is nothing to measure.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

class DeviceTimeline {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Span {
    std::string name;
    Time begin, end;
  };

  // Waits for the device once, to compare its clock with the host's.
  explicit DeviceTimeline(torch::Device device);
  bool measures() const { return zero_ != nullptr; }
  // Names the work launched on the current stream since the last mark; an empty name leaves it out.
  void mark(const std::string& name);
  // The spans that the device has finished since the last call; with `wait` all of them.
  std::vector<Span> take(bool wait);

 private:
  struct Mark {
    std::string name;
    std::shared_ptr<void> event;
  };
  Time time_of(const Mark& mark) const;

  std::shared_ptr<void> zero_;  // an event, passed at host_zero_
  Time host_zero_;
  std::deque<Mark> marks_;  // the first one ends the last span that was taken
};

}  // namespace hydramix
