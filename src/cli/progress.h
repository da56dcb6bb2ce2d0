// SPDX-License-Identifier: Apache-2.0
// Progress of long work on stderr. On a terminal it is one line that is drawn again and fits the
// terminal's width; less important fields are left out first. Elsewhere (a file, a pipe) it is a
// plain line at most every second: at every tenth of the way, and at least every ten seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydramix {

// The contents of a line.
struct ProgressState {
  std::string label, unit;
  double unit_steps = 1;  // steps in a unit
  int64_t begin = 0, done = 0, total = 0;
  double seconds = 0;              // since begin
  std::vector<std::string> notes;  // the most important first
};

// At most `columns` columns, with a bar.
std::string progress_bar_line(const ProgressState& state, std::size_t columns);
// For files and pipes.
std::string progress_plain_line(const ProgressState& state);

// Columns that a terminal takes for UTF-8 text: wide characters take two, marks none.
std::size_t terminal_columns(std::string_view text);
// The longest beginning of the text that takes at most `columns`.
std::string_view clipped_to_columns(std::string_view text, std::size_t columns);

// A unit in which a number of bytes is shown: "GB", "MB", "kB" or "B".
struct ByteUnit {
  std::string name;
  double bytes;
};
ByteUnit byte_unit(int64_t total);

class Progress {
 public:
  // `label` may be the name of a file. Steps are counted one by one, or shown in a larger unit:
  // ("unpack", bytes, "MB", 1e6). Resumed work begins at `done`, which does not count for the rate.
  Progress(const std::string& label, int64_t total, std::string unit, double unit_steps = 1,
           int64_t done = 0);
  // Steps are bytes.
  Progress(const std::string& label, int64_t total, const ByteUnit& unit, int64_t done = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `notes` are shown after the numbers, for example the loss.
  void advance(std::vector<std::string> notes = {}) {
    advance_to(state_.done + 1, std::move(notes));
  }
  void advance_to(int64_t done, std::vector<std::string> notes = {});
  // Shows that work goes on inside a step: "micro-batch 3 of 128".
  void within_step(const std::string& note);
  // A separate line. It replaces the bar until the next update.
  void message(const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;
  void show();

  ProgressState state_;
  bool terminal_;
  bool bar_shown_ = false;
  int64_t lines_ = 0;  // plain ones
  Clock::time_point start_ = Clock::now(), shown_ = start_;
};

}  // namespace hydramix
