// SPDX-License-Identifier: Apache-2.0
// Who takes part in a run, where each rank is, and who is to blame when it stops.
//
// Every rank has a thread that writes, four times a second, a sign of life and the operation its
// rank is at into the store, and looks whether somebody has given up. When an operation fails or
// takes too long, the thread compares the signs of life of all ranks one second apart: a rank
// whose sign stands still is dead or stopped, one whose operation is behind is late. The finding
// is written into the store, so that all ranks end with the same message. The store is reached
// over a connection of the thread's own, and nobody waits for the thread without a limit: a
// stopped store can hold it forever.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "train/launch_environment.h"
#include "train/store.h"

namespace hydramix {

class Membership {
 public:
  // Meets the other ranks; Error naming the missing ones after `timeout`.
  Membership(const LaunchEnvironment& launched, std::chrono::milliseconds timeout);
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  StorePointer store() const { return store_; }
  // "rank 1 (host:pid 1234)"
  const std::string& name(int64_t rank) const;
  bool one_machine() const;  // all ranks have the same host name

  // This rank has come to the operation of this number. Cheap: the thread passes it on.
  void at(int64_t operation, const std::string& what);
  // Why the run has failed, once somebody knows.
  std::optional<std::string> failure() const;
  // Finds out who is to blame for an operation that was lost or has taken `waited`, tells the
  // others, and returns what to say.
  enum class Sign { kLost, kLate };
  std::string blame(Sign sign, std::chrono::milliseconds waited, const std::string& detail);

  void leave(std::chrono::milliseconds timeout);
  void abort(const std::string& why) noexcept;

 private:
  void wait_for_leavers(std::chrono::milliseconds timeout);

  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this object
  StorePointer store_;              // of the calling thread
};

}  // namespace hydramix
