// SPDX-License-Identifier: Apache-2.0
// Who is to blame for an operation that was lost or takes too long: a pure function of what the
// ranks have written of themselves, at two times a few beats apart.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace hydramix {

// What a rank writes of itself at every beat.
struct SignOfLife {
  int64_t beat = 0;       // counts up; one that stands still is of a rank that is dead or stopped
  int64_t operation = 0;  // the number of the one that it has come to; -1 when it has left
  std::string what;       // that operation

  std::string text() const;
  static SignOfLife of(const std::string& text);
  static SignOfLife of_leaver() { return {0, -1, ""}; }
  bool left() const { return operation < 0; }
  std::string place() const;  // "operation 3 (sum)"
};

struct Complaint {
  enum class Kind { kLost, kLate };
  Kind kind;
  std::chrono::milliseconds waited;
  std::string detail;  // what the backend says of it
};

struct Verdict {
  std::string text;
  int64_t listeners = 0;  // ranks that are alive and should hear it
};

// names: by rank, "rank 1 (host:pid 1234)". rank: who complains.
Verdict judge(const Complaint& complaint, const std::vector<SignOfLife>& before,
              const std::vector<SignOfLife>& after, const std::vector<std::string>& names,
              int64_t rank);

std::string seconds(std::chrono::milliseconds time);  // "1.5 s"

}  // namespace hydramix
