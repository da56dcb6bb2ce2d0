// SPDX-License-Identifier: Apache-2.0
// Finds the rank that made an operation fail, from two readings of all heartbeats a few beats
// apart. A pure function, so that every case can be tested without processes.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "dist/heartbeat.h"

namespace hydramix {

// The failure as one rank saw it.
struct FailedOperation {
  enum class Kind { kConnectionLost, kTimeout };
  Kind kind;
  std::chrono::milliseconds waited;
  std::string detail;  // the backend's own message
};

struct FailureReport {
  std::string text;
  int64_t live_ranks = 0;  // ranks that still beat, and will read the report
};

// names: by rank, "rank 1 (host:pid 1234)". rank: the one whose operation failed.
FailureReport diagnose(const FailedOperation& failed, const std::vector<Heartbeat>& before,
                       const std::vector<Heartbeat>& after, const std::vector<std::string>& names,
                       int64_t rank);

}  // namespace hydramix
