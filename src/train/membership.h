// SPDX-License-Identifier: Apache-2.0
// The ranks of a run: how they meet, what they are called, and how they part. While they work
// together, watch() knows how they are.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "train/launch_environment.h"
#include "train/store.h"
#include "train/watch.h"

namespace hydramix {

class Membership {
 public:
  // Meets the other ranks; Error naming the missing ones after `timeout`.
  Membership(const LaunchEnvironment& launched, std::chrono::milliseconds timeout);
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  StorePointer store() const { return store_; }
  const std::string& name(int64_t rank) const { return names_.at(rank); }  // "rank 1 (host:pid 9)"
  bool one_machine() const;  // all ranks have the same host name
  Watch& watch() const { return *watch_; }

  // The orderly end. The store's host waits for all others, at most `timeout`.
  void leave(std::chrono::milliseconds timeout);

 private:
  void meet(std::chrono::milliseconds timeout);
  void wait_for_leavers(std::chrono::milliseconds timeout);

  const LaunchEnvironment launched_;
  StorePointer store_;                      // of the calling thread
  std::vector<std::string> hosts_, names_;  // by rank
  std::shared_ptr<Watch> watch_;            // shared with its thread, which may outlive this object
  std::thread thread_;
};

}  // namespace hydramix
