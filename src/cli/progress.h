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
  Progress(std::string label, int64_t total, std::string unit);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `note` is shown behind the bar, for example the loss.
  void advance(const std::string& note = "");

 private:
  void show(const std::string& note);

  using Clock = std::chrono::steady_clock;
  std::string label_, unit_;
  int64_t total_, done_ = 0;
  bool terminal_;
  Clock::time_point start_ = Clock::now(), shown_{};
};

}  // namespace hydramix
