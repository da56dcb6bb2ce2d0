// SPDX-License-Identifier: Apache-2.0
// A rank's thread that keeps an eye on the others, through the store.
//
// Four times a second it writes a sign of life, with the operation that its rank is at, and looks
// whether somebody has given up. On a complaint it compares the signs of all ranks one second
// apart (verdict.h) and writes the finding into the store, so that all ranks end with the same
// message. It has a connection of its own, and nobody waits for it without a limit: a stopped
// store can hold it forever.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "train/store.h"
#include "train/verdict.h"

namespace hydramix {

class Watch {
 public:
  // names: by rank, "rank 1 (host:pid 1234)".
  Watch(const LaunchEnvironment& launched, StorePointer store, std::vector<std::string> names);

  void run();  // the thread; returns after stop(), or when the store is gone
  // Whether run() has returned within `limit`.
  bool stop(std::chrono::milliseconds limit);

  // This rank has come to the operation of this number. Cheap: passed on at the next beat.
  void at(int64_t operation, const std::string& what);
  // Why the run has failed, once somebody knows.
  std::optional<std::string> failure() const;
  // Finds out who is to blame, tells the others, and returns what to say.
  std::string blame(const Complaint& complaint);
  void abort(const std::string& why) noexcept;

  std::string lost_store(const std::string& detail) const;  // "rank 0 (...) died: ..."

 private:
  void beat();
  SignOfLife next_sign();
  bool heard_of_failure();
  std::vector<SignOfLife> signs();
  void find_out(const Complaint& complaint);
  void tell(const std::string& why, int64_t listeners);
  void farewell();
  void fail(const std::string& why);

  const LaunchEnvironment launched_;
  const StorePointer store_;
  const std::vector<std::string> names_;
  const std::chrono::milliseconds beat_length_;
  bool heard_ = false;  // the thread's: this rank has read the common reason

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex:
  SignOfLife own_;
  std::chrono::steady_clock::time_point contact_;  // the last answer of the store
  bool stop_ = false, stopped_ = false;
  std::optional<Complaint> complaint_;
  std::optional<std::string> failure_, reason_to_tell_;
};

std::string key_of(const std::string& kind, int64_t rank);  // "sign/3"

// How long a rank that gives up waits for the others to have heard why.
constexpr std::chrono::milliseconds kFarewell(2000);

}  // namespace hydramix
