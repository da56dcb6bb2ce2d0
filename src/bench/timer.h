// SPDX-License-Identifier: Apache-2.0
// Times several alternatives alternately: each runs once per round, so that other load on the
// machine affects all of them alike. Their ratio is stable although their times are not. The median
// of the rounds is reported.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace hydramix::bench {

struct TimerOptions {
  int64_t rounds = 5;        // at least so many,
  double min_seconds = 0.5;  // and until this much time is measured;
  double max_seconds = 60;   // but no further round after this much
};

struct Timing {
  double seconds = 0;  // median
  double best = 0;
  int64_t rounds = 0;
};

using Alternative = std::function<void()>;
using Clock = std::function<double()>;  // monotonic seconds since an arbitrary moment

double steady_seconds();

// One timing for each alternative, after one untimed round.
std::vector<Timing> time_interleaved(const std::vector<Alternative>& alternatives,
                                     const TimerOptions& options,
                                     const Clock& clock = steady_seconds);

double median(std::vector<double> values);  // of at least one value

}  // namespace hydramix::bench
