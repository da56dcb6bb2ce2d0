// SPDX-License-Identifier: Apache-2.0
// The ranks of a run: rendezvous, names, and the orderly end. Between those two, detector() watches
// for failed ranks.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dist/failure_detector.h"
#include "dist/launch_environment.h"
#include "dist/store.h"

namespace hydramix {

class Membership {
 public:
  // Waits for all ranks to start. After `timeout`, throws an Error that names the missing ones and
  // says who was refused.
  Membership(const LaunchEnvironment& launched, std::chrono::milliseconds timeout);
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  StorePointer store() const { return store_; }
  const std::string& name(int64_t rank) const { return names_.at(rank); }  // "rank 1 (host:pid 9)"
  bool one_machine() const;  // all ranks have the same host name
  FailureDetector& detector() const { return *detector_; }

  // The orderly end. The rank that hosts the store waits for all others, at most `timeout`.
  void leave(std::chrono::milliseconds timeout);

 private:
  void rendezvous(std::chrono::milliseconds timeout);
  std::string gather(std::chrono::milliseconds timeout, std::string& names);
  void wait_for_departures(std::chrono::milliseconds timeout);

  const LaunchEnvironment launched_;
  std::unique_ptr<StoreServer> server_;        // of the rank that hosts the store
  StorePointer store_;                         // for the calling thread
  std::vector<std::string> hosts_, names_;     // by rank
  std::shared_ptr<FailureDetector> detector_;  // shared with its thread, which may outlive this
  std::thread thread_;
};

}  // namespace hydramix
