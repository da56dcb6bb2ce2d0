// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace hydramix {

Progress::Progress(std::string label, int64_t total, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (terminal_ && done_ > 0) std::fputc('\n', stderr);
}

void Progress::advance(const std::string& note) {
  ++done_;
  const auto now = Clock::now();
  const bool last = done_ == total_;
  const bool due = terminal_ ? now - shown_ > std::chrono::milliseconds(100)
                             : done_ % std::max<int64_t>(1, total_ / 10) == 0;
  if (!last && !due) return;
  shown_ = now;
  show(note);
}

void Progress::show(const std::string& note) {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const double rate = static_cast<double>(done_) / std::max(seconds, 1e-9);
  const double left = static_cast<double>(total_ - done_) / rate;
  std::string bar;
  if (terminal_) {
    constexpr int64_t kWidth = 24;
    const auto filled = static_cast<std::size_t>(kWidth * done_ / total_);
    bar = "\r\033[K" + label_ + " [" + std::string(filled, '#') +
          std::string(kWidth - filled, '.') + "]";
  } else {
    bar = label_;
  }
  std::fprintf(stderr, "%s %lld/%lld  %.1f %s/s  %.0f s left  %s%s", bar.c_str(),
               static_cast<long long>(done_), static_cast<long long>(total_), rate, unit_.c_str(),
               left, note.c_str(), terminal_ ? "" : "\n");
  std::fflush(stderr);
}

}  // namespace hydramix
