// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/formatted.h"
#include "base/quotes.h"
#include "text/unicode.h"

namespace hydramix {
namespace {

constexpr const char* kClearLine = "\r\033[K";
constexpr std::size_t kBarWidth = 24, kNarrowestBar = 8;
constexpr std::size_t kUsualColumns = 80;

// Queried for every line, so that a line fits after the window was resized.
std::size_t stderr_columns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualColumns;
  return size.ws_col;
}

// "90 s", "12 min", "3 h 20 min".
std::string duration(double seconds) {
  if (seconds < 120) return formatted("%.0f s", seconds);
  const auto minutes = static_cast<int64_t>(std::min(seconds / 60, 1e9));
  if (minutes < 120) return formatted("%lld min", minutes);
  return formatted("%lld h %lld min", minutes / 60, minutes % 60);
}

struct ProgressFields {
  std::string counts, rate, left;  // "3/40 steps", "2.1 steps/s", "18 s left"
};

ProgressFields fields_of(const ProgressState& s) {
  const auto amount = [&](double steps) {
    return formatted(s.unit_steps > 1 ? "%.1f" : "%.0f", steps / s.unit_steps);
  };
  const double rate = static_cast<double>(s.done - s.begin) / std::max(s.seconds, 1e-9);
  ProgressFields fields;
  fields.counts = amount(static_cast<double>(s.done)) + "/" + amount(static_cast<double>(s.total)) +
                  " " + s.unit;
  if (s.done == s.begin) return fields;
  const double per_second = rate / s.unit_steps;
  // "12 min a step", not "0.0 steps/s"
  fields.rate = per_second >= 0.1 || !s.unit.ends_with('s')
                    ? formatted("%.1f %s/s", per_second, s.unit)
                    : duration(1 / per_second) + " a " + s.unit.substr(0, s.unit.size() - 1);
  fields.left = duration(static_cast<double>(s.total - s.done) / rate) + " left";
  return fields;
}

std::string bar(const ProgressState& s, std::size_t width) {
  const double part = static_cast<double>(s.done) / std::max(1.0, static_cast<double>(s.total));
  const auto filled =
      static_cast<std::size_t>(static_cast<double>(width) * std::clamp(part, 0.0, 1.0));
  return "[" + std::string(filled, '#') + std::string(width - filled, '.') + "]";
}

}  // namespace

std::size_t terminal_columns(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();)
    columns += unicode::column_width(unicode::next_character(text, at));
  return columns;
}

std::string_view clipped_to_columns(std::string_view text, std::size_t columns) {
  std::size_t used = 0, end = 0;
  for (std::size_t at = 0; at < text.size(); end = at) {
    used += unicode::column_width(unicode::next_character(text, at));
    if (used > columns) break;
  }
  return text.substr(0, end);
}

std::string progress_bar_line(const ProgressState& state, std::size_t columns) {
  const auto fields = fields_of(state);
  // Fields in the order of importance: the task and its progress, the time left, the first note,
  // the bar, the rate, the other notes. A field that does not fit is left out, and so are later
  // ones that would seem to take its place.
  const std::string start = std::string(clipped_to_columns(state.label, columns)) + " ";
  std::size_t room = columns - std::min(columns, terminal_columns(start));
  bool full = false;
  const auto take = [&](const std::string& field) {  // two blanks separate fields
    const std::size_t wanted = terminal_columns(field) + 2;
    full = full || wanted > room;
    if (full || field.empty()) return false;
    room -= wanted;
    return true;
  };
  const std::string& first_note = state.notes.empty() ? std::string() : state.notes.front();
  const bool has_counts = take(fields.counts), has_left = take(fields.left),
             has_note = take(first_note);
  std::size_t bar_width = 0;
  if (room >= kNarrowestBar + 3) {
    bar_width = std::min(kBarWidth, room - 3);
    room -= bar_width + 3;
  } else {
    full = true;
  }
  const bool has_rate = take(fields.rate);
  std::string line = start;
  if (bar_width > 0) line += bar(state, bar_width) + " ";
  const auto add = [&](bool taken, const std::string& field) {
    if (taken) line += field + "  ";
  };
  add(has_counts, fields.counts);
  add(has_rate, fields.rate);
  add(has_left, fields.left);
  add(has_note, first_note);
  for (std::size_t i = 1; i < state.notes.size(); ++i) add(take(state.notes[i]), state.notes[i]);
  line.erase(line.find_last_not_of(' ') + 1);
  return std::string(clipped_to_columns(line, columns));
}

std::string progress_plain_line(const ProgressState& state) {
  const auto fields = fields_of(state);
  std::string line = state.label + " " + fields.counts;
  for (const auto& field : {fields.rate, fields.left})
    if (!field.empty()) line += "  " + field;
  for (const auto& note : state.notes) line += "  " + note;
  return line;
}

ByteUnit byte_unit(int64_t total) {
  if (total >= 10'000'000'000) return {"GB", 1e9};
  if (total >= 1'000'000) return {"MB", 1e6};
  if (total >= 1'000) return {"kB", 1e3};
  return {"B", 1};
}

Progress::Progress(const std::string& label, int64_t total, std::string unit, double unit_steps,
                   int64_t done)
    : state_{escaped(label), std::move(unit), unit_steps, done, done, total, 0, {}},
      terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::Progress(const std::string& label, int64_t total, const ByteUnit& unit, int64_t done)
    : Progress(label, total, unit.name, unit.bytes, done) {}

Progress::~Progress() {
  if (bar_shown_) std::fputc('\n', stderr);
}

void Progress::advance_to(int64_t done, std::vector<std::string> notes) {
  const auto tenth = [this](int64_t step) {
    return step * 10 / std::max<int64_t>(1, state_.total);
  };
  const bool last = done == state_.total && state_.done != state_.total;
  const bool new_tenth = tenth(done) != tenth(state_.done);
  state_.done = done;
  state_.notes = std::move(notes);
  const auto since = Clock::now() - shown_;
  using std::chrono::milliseconds;
  const bool due = terminal_ ? last || since > milliseconds(100)
                             : (since > milliseconds(1000) && (last || new_tenth)) ||
                                   since > milliseconds(10000) ||
                                   (last && lines_ > 0);  // an end for what has begun
  if (due) show();
}

void Progress::within_step(const std::string& note) {
  using std::chrono::milliseconds;
  const auto since = Clock::now() - shown_;
  // The first plain line comes early: it shows that the work has begun.
  if (since < (terminal_     ? milliseconds(500)
               : lines_ == 0 ? milliseconds(2000)
                             : milliseconds(60000)))
    return;
  auto notes = std::move(state_.notes);
  state_.notes = {note};
  show();
  state_.notes = std::move(notes);
}

void Progress::message(const std::string& line) {
  std::fprintf(stderr, "%s%s\n", bar_shown_ ? kClearLine : "", line.c_str());
  std::fflush(stderr);
  bar_shown_ = false;
}

void Progress::show() {
  shown_ = Clock::now();
  state_.seconds = std::chrono::duration<double>(shown_ - start_).count();
  if (terminal_) {
    // In the last column some terminals begin a new line.
    const auto line = progress_bar_line(state_, stderr_columns() - 1);
    std::fprintf(stderr, "%s%s", kClearLine, line.c_str());
    bar_shown_ = true;
  } else {
    std::fprintf(stderr, "%s\n", progress_plain_line(state_).c_str());
    ++lines_;
  }
  std::fflush(stderr);
}

}  // namespace hydramix
