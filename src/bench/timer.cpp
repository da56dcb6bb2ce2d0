// SPDX-License-Identifier: Apache-2.0
#include "bench/timer.h"

#include <algorithm>
#include <chrono>

namespace hydramix::bench {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<Timing> time_interleaved(const std::vector<Alternative>& alternatives,
                                     const TimerOptions& options, const Clock& clock) {
  for (const auto& run : alternatives) run();  // first touch of memory, caches, threads

  std::vector<std::vector<double>> seconds(alternatives.size());
  const double start = clock();
  double elapsed = 0;
  for (int64_t round = 0; round == 0 || (elapsed < options.max_seconds &&
                                         (round < options.rounds || elapsed < options.min_seconds));
       ++round) {
    for (std::size_t i = 0; i < alternatives.size(); ++i) {
      const double before = clock();
      alternatives[i]();
      seconds[i].push_back(clock() - before);
    }
    elapsed = clock() - start;
  }

  std::vector<Timing> timings;
  for (const auto& of_one : seconds)
    timings.push_back({.seconds = median(of_one),
                       .best = *std::min_element(of_one.begin(), of_one.end()),
                       .rounds = static_cast<int64_t>(of_one.size())});
  return timings;
}

}  // namespace hydramix::bench
