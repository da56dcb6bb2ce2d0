// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/formatted.h"

namespace hydramix {
namespace {

constexpr const char* kClearLine = "\r\033[K";

// "90 s", "12 min", "3 h 20 min".
std::string duration(double seconds) {
  if (seconds < 120) return formatted("%.0f s", seconds);
  const auto minutes = static_cast<int64_t>(std::min(seconds / 60, 1e9));
  if (minutes < 120) return formatted("%lld min", minutes);
  return formatted("%lld h %lld min", minutes / 60, minutes % 60);
}

}  // namespace

Progress::Progress(std::string label, int64_t total, std::string unit, double unit_steps,
                   int64_t done)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      unit_steps_(unit_steps),
      total_(total),
      begin_(done),
      done_(done),
      terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (terminal_ && done_ > begin_) std::fputc('\n', stderr);
}

void Progress::advance_to(int64_t done, const std::string& note) {
  const auto tenth = [this](int64_t step) { return step / std::max<int64_t>(1, total_ / 10); };
  const bool last = done == total_ && done_ != total_;
  const bool new_tenth = tenth(done) != tenth(done_);
  done_ = done;
  const auto now = Clock::now();
  const bool due = terminal_ ? now - shown_ > std::chrono::milliseconds(100) : new_tenth;
  if (!last && !due) return;
  shown_ = now;
  show(note);
}

void Progress::message(const std::string& line) {
  std::fprintf(stderr, "%s%s\n", terminal_ ? kClearLine : "", line.c_str());
  std::fflush(stderr);
}

void Progress::show(const std::string& note) {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const double rate = static_cast<double>(done_ - begin_) / std::max(seconds, 1e-9);
  const double left = static_cast<double>(total_ - done_) / std::max(rate, 1e-9);
  std::string bar = label_;
  if (terminal_) {
    constexpr double kWidth = 24;
    const double part = static_cast<double>(done_) / std::max(1.0, static_cast<double>(total_));
    const auto filled = static_cast<std::size_t>(kWidth * std::clamp(part, 0.0, 1.0));
    bar = kClearLine + label_ + " [" + std::string(filled, '#') +
          std::string(static_cast<std::size_t>(kWidth) - filled, '.') + "]";
  }
  std::fprintf(stderr, "%s %.0f/%.0f  %.1f %s/s  %s left  %s%s", bar.c_str(),
               static_cast<double>(done_) / unit_steps_, static_cast<double>(total_) / unit_steps_,
               rate / unit_steps_, unit_.c_str(), duration(left).c_str(), note.c_str(),
               terminal_ ? "" : "\n");
  std::fflush(stderr);
}

}  // namespace hydramix
