// SPDX-License-Identifier: Apache-2.0
#include "train/profile.h"

#include <nlohmann/json.hpp>

#include <utility>

#include "base/atomic_file.h"

namespace hydramix {
namespace {

// About 20 MB of JSON. The first steps of a run tell what the later ones do.
constexpr std::size_t kMostEvents = 200'000;

using Json = nlohmann::ordered_json;

Json name_of_track(int track, const std::string& name) {
  return {
      {"name", "thread_name"}, {"ph", "M"}, {"pid", 0}, {"tid", track}, {"args", {{"name", name}}}};
}

}  // namespace

Profile::Profile(std::filesystem::path file, torch::Device device)
    : file_(std::move(file)), device_(device) {
  write();  // before hours of training: can the file be written?
}

Profile::Span::Span(Profile* profile, std::string_view name, int64_t step)
    : profile_(profile), step_(step) {
  if (profile_ == nullptr) return;
  name_ = name;
  begin_ = std::chrono::steady_clock::now();
}

Profile::Span::~Span() {
  if (profile_ == nullptr) return;
  profile_->add({std::move(name_), kHost, begin_, std::chrono::steady_clock::now(), step_});
}

void Profile::mark(Profile* profile, const std::string& name) {
  if (profile != nullptr && profile->events_.size() < kMostEvents) profile->device_.mark(name);
}

void Profile::add(Event event) {
  if (events_.size() < kMostEvents)
    events_.push_back(std::move(event));
  else
    ++dropped_;
}

void Profile::take_device(bool wait) {
  for (auto& span : device_.take(wait))
    add({std::move(span.name), kDevice, span.begin, span.end, -1});
}

void Profile::write() {
  take_device(/*wait=*/true);
  auto trace = Json::array({name_of_track(kHost, "host")});
  if (device_.measures()) trace.push_back(name_of_track(kDevice, "GPU"));
  const auto microseconds = [](std::chrono::steady_clock::duration d) {
    return std::chrono::duration<double, std::micro>(d).count();
  };
  for (const auto& event : events_) {
    Json line{{"name", event.name},
              {"ph", "X"},
              {"pid", 0},
              {"tid", static_cast<int>(event.track)},
              {"ts", microseconds(event.begin - start_)},
              {"dur", microseconds(event.end - event.begin)}};
    if (event.step >= 0) line["args"]["step"] = event.step;
    trace.push_back(std::move(line));
  }
  const Json whole{{"traceEvents", std::move(trace)},
                   {"displayTimeUnit", "ms"},
                   {"otherData", {{"program", "hydramix"}, {"events left out", dropped_}}}};
  write_file(file_, whole.dump());
}

}  // namespace hydramix
