// SPDX-License-Identifier: Apache-2.0
// A timeline of training: when the host made batches, launched work, waited, evaluated and wrote,
// and when a GPU did the work that was launched. It is written as a Chrome trace, which
// chrome://tracing and ui.perfetto.dev show.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ops/device_timeline.h"

namespace hydramix {

class Profile {
  using Time = std::chrono::steady_clock::time_point;

 public:
  Profile(std::filesystem::path file, torch::Device device);

  // Adds the time until its destruction to the host's track. Spans that contain others are drawn
  // above them.
  class Span {
   public:
    // Without a profile it does nothing.
    Span(Profile* profile, std::string_view name, int64_t step = -1);
    ~Span();
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    Profile* profile_;
    Time begin_;
    std::string name_;
    int64_t step_;
  };

  // The work launched since the last mark, on the GPU's track; an empty name leaves it out.
  static void mark(Profile* profile, const std::string& name);
  // Reads the times of the work that the GPU has finished.
  void read_device() { take_device(/*wait=*/false); }
  // Writes what has happened so far. The device must have no unfinished work.
  void write();

 private:
  enum Track { kHost, kDevice };
  struct Event {
    std::string name;
    Track track;
    Time begin, end;
    int64_t step;  // -1: of none
  };
  void add(Event event);
  void take_device(bool wait);

  const std::filesystem::path file_;
  const Time start_ = std::chrono::steady_clock::now();
  DeviceTimeline device_;
  std::vector<Event> events_;
  int64_t dropped_ = 0;
};

}  // namespace hydramix
