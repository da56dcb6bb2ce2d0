// SPDX-License-Identifier: Apache-2.0
// Detects failed ranks through the store, in a thread of its own.
//
// Four times a second the thread writes its rank's heartbeat and checks whether another rank has
// reported a failure. When an operation of its own rank fails, it compares two readings of all
// heartbeats one second apart (failure_report.h) and writes the report into the store, so that all
// ranks end with the same message. The thread has its own connection. A stopped store can block it
// forever, so nothing waits for it without a limit.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dist/failure_report.h"
#include "dist/heartbeat.h"
#include "dist/store.h"

namespace hydramix {

class FailureDetector {
 public:
  // names: by rank, "rank 1 (host:pid 1234)".
  FailureDetector(const LaunchEnvironment& launched, StorePointer store,
                  std::vector<std::string> names);

  void run();  // the thread's body; returns after stop(), or when the store is gone
  // True if run() returned within `limit`.
  bool stop(std::chrono::milliseconds limit);

  // Records that this rank has reached an operation. Cheap: the next heartbeat carries it.
  void at(int64_t operation, const std::string& what);
  // The reason why the run has failed, once it is known.
  std::optional<std::string> failure() const;
  // Finds the rank at fault, reports it to the others, and returns the message.
  std::string explain(const FailedOperation& failed);
  // Reports that this rank fails, with the reason.
  void abort(const std::string& why) noexcept;

  std::string lost_store(const std::string& detail) const;  // "rank 0 (...) died: ..."

 private:
  void beat();
  Heartbeat next_heartbeat();
  bool failure_reported();
  std::vector<Heartbeat> heartbeats();
  void investigate(const FailedOperation& failed);
  void report(const std::string& why, int64_t live_ranks);
  void wait_for_readers();
  void fail(const std::string& why);
  std::chrono::milliseconds silence_of_store() const;
  std::string silent_store() const;  // "rank 0 (...), which hosts the store, has given no sign ..."

  const LaunchEnvironment launched_;
  const StorePointer store_;
  const std::vector<std::string> names_;
  const std::chrono::milliseconds interval_;  // between two heartbeats
  bool acknowledged_ = false;  // used by the thread only: this rank has read the report

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex:
  Heartbeat own_;
  std::chrono::steady_clock::time_point contact_;  // of the store's last answer
  bool stop_ = false, stopped_ = false;
  std::optional<FailedOperation> failed_;  // to investigate
  std::optional<std::string> failure_, abort_reason_;
};

std::string key_of(const std::string& kind, int64_t rank);  // "heartbeat/3"

// How long a failing rank keeps the store alive for the others to read the report.
constexpr std::chrono::milliseconds kReportGrace(2000);

}  // namespace hydramix
