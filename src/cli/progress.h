// SPDX-License-Identifier: Apache-2.0
// Progress of long work on stderr: a bar with rate and time left on a terminal, else a plain line
// about every tenth of the way.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace hydramix {

class Progress {
 public:
  // Steps are counted one by one, or shown in a larger unit: ("unpack", bytes, "MB", 1e6). Resumed
  // work begins at `done`, which does not count for the rate.
  Progress(std::string label, int64_t total, std::string unit, double unit_steps = 1,
           int64_t done = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `note` is shown after the bar, for example the loss.
  void advance(const std::string& note = "") { advance_to(done_ + 1, note); }
  void advance_to(int64_t done, const std::string& note = "");
  // A separate line. It replaces the bar until the next update.
  void message(const std::string& line);

 private:
  void show(const std::string& note);

  using Clock = std::chrono::steady_clock;
  std::string label_, unit_;
  double unit_steps_;
  int64_t total_, begin_, done_;
  bool terminal_;
  Clock::time_point start_ = Clock::now(), shown_{};
};

}  // namespace hydramix
