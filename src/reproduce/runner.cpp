// SPDX-License-Identifier: Apache-2.0
#include "reproduce/runner.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/atomic_file.h"
#include "base/interrupt.h"
#include "base/json_reader.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr auto kPollEvery = std::chrono::milliseconds(50);

enum class StageState { kWaiting, kRunning, kDone, kFailed, kSkipped };

class StageScheduler {
 public:
  StageScheduler(const std::vector<Stage>& stages, int64_t slots, const RunnerEvents& events)
      : stages_(stages),
        events_(events),
        states_(stages.size(), StageState::kWaiting),
        slots_(static_cast<std::size_t>(slots)) {
    for (std::size_t i = 0; i < stages.size(); ++i)
      if (fs::exists(stages[i].result)) states_[i] = StageState::kDone;
    kept_ = static_cast<double>(std::count(states_.begin(), states_.end(), StageState::kDone));
  }

  RunnerOutcome run() {
    const Interrupt interrupt;
    bool stopping = false;
    while (true) {
      collect();
      if (Interrupt::signal() != 0 && !stopping) {
        stopping = true;
        for (auto& slot : slots_)
          if (slot.job) slot.job->stop();
      }
      if (!stopping) start_more();
      tell();
      const bool idle = std::none_of(slots_.begin(), slots_.end(),
                                     [](const Slot& slot) { return slot.job != nullptr; });
      if (idle && (stopping || !any_waiting())) break;
      std::this_thread::sleep_for(kPollEvery);
    }
    outcome_.interrupted = stopping;
    return std::move(outcome_);
  }

 private:
  struct Slot {
    std::unique_ptr<Job> job;
    std::size_t stage = 0;
  };

  bool any_waiting() const {
    return std::count(states_.begin(), states_.end(), StageState::kWaiting) > 0;
  }

  void collect() {
    for (auto& slot : slots_) {
      if (!slot.job) continue;
      const auto ended = slot.job->ended();
      if (!ended) continue;
      slot.job.reset();
      const auto& stage = stages_[slot.stage];
      // A job that a signal stopped has no result and has not failed either.
      if (!*ended && Interrupt::signal() != 0) {
        states_[slot.stage] = StageState::kWaiting;
        continue;
      }
      if (*ended) {
        try {
          Json result = stage.read();
          result["recipe"] = stage.recipe;
          write_file(stage.result, result.dump(2) + "\n");
          states_[slot.stage] = StageState::kDone;
        } catch (const Error& error) {
          fail(slot.stage, error.what());
        }
      } else {
        fail(slot.stage, "see " + stage.log);
      }
    }
  }

  void fail(std::size_t stage, const std::string& why) {
    states_[stage] = StageState::kFailed;
    outcome_.failed.push_back(stages_[stage].name + ": " + why);
    if (events_.message) events_.message("failed: " + outcome_.failed.back());
  }

  void start_more() {
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      if (slots_[s].job) continue;
      const auto next = next_stage();
      if (!next) return;
      slots_[s] = {stages_[*next].start(static_cast<int64_t>(s)), *next};
      states_[*next] = StageState::kRunning;
    }
  }

  // The first stage that may start. Leaves out those that need a failed one.
  std::optional<std::size_t> next_stage() {
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      if (states_[i] != StageState::kWaiting) continue;
      if (!stages_[i].after) return i;
      const auto before = states_[*stages_[i].after];
      if (before == StageState::kDone) return i;
      if (before == StageState::kFailed || before == StageState::kSkipped) {
        states_[i] = StageState::kSkipped;
        outcome_.skipped.push_back(stages_[i].name);
      }
    }
    return std::nullopt;
  }

  void tell() {
    if (!events_.progress) return;
    RunnerProgress now{0, kept_, stages_.size(), {}};
    for (std::size_t i = 0; i < stages_.size(); ++i)
      if (states_[i] != StageState::kWaiting && states_[i] != StageState::kRunning) ++now.done;
    for (const auto& slot : slots_)
      if (slot.job) {
        now.done += std::clamp(stages_[slot.stage].progress(), 0.0, 1.0);
        now.running.push_back(stages_[slot.stage].name);
      }
    events_.progress(now);
  }

  const std::vector<Stage>& stages_;
  const RunnerEvents& events_;
  std::vector<StageState> states_;
  std::vector<Slot> slots_;
  double kept_ = 0;
  RunnerOutcome outcome_;
};

}  // namespace

void check_kept_results(const std::vector<Stage>& stages) {
  for (const auto& stage : stages) {
    if (!fs::exists(stage.result)) continue;
    const auto kept = read_json(stage.result, kResultFile,
                                "The file is damaged: remove it, and the run is repeated.");
    HYDRAMIX_CHECK_USAGE(
        kept.is_object() && kept.contains("recipe") && kept["recipe"] == stage.recipe,
        stage.result.string(), ": holds the result of ", stage.name,
        " by another recipe or with other data. Choose another --out, or remove its folder to "
        "repeat it.");
  }
}

RunnerOutcome run_stages(const std::vector<Stage>& stages, int64_t slots,
                         const RunnerEvents& events) {
  return StageScheduler(stages, slots, events).run();
}

}  // namespace hydramix
