// SPDX-License-Identifier: Apache-2.0
// A heartbeat: a counter and the operation that a rank has reached. Every rank writes its own into
// the store several times a second. A counter that no longer grows means that the rank is dead,
// stopped or unreachable.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace hydramix {

struct Heartbeat {
  int64_t count = 0;
  int64_t operation = 0;  // number of the operation that the rank has reached; -1: it has left
  std::string what;       // name of that operation

  std::string text() const;
  static Heartbeat parse(const std::string& text);
  static Heartbeat of_departed() { return {0, -1, ""}; }
  bool left() const { return operation < 0; }
  std::string place() const;  // "operation 3 (sum)"
};

std::string seconds(std::chrono::milliseconds time);  // "1.5 s"

}  // namespace hydramix
