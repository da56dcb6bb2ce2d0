// SPDX-License-Identifier: Apache-2.0
#include "dist/heartbeat.h"

#include <sstream>

#include "base/formatted.h"
#include "hydramix/error.h"

namespace hydramix {

std::string Heartbeat::text() const { return concat(count, " ", operation, " ", what); }

Heartbeat Heartbeat::parse(const std::string& text) {
  Heartbeat heartbeat;
  std::istringstream in(text);
  in >> heartbeat.count >> heartbeat.operation;
  in.ignore(1);
  std::getline(in, heartbeat.what, '\0');
  return heartbeat;
}

std::string Heartbeat::place() const {
  return operation == 0 ? "the start" : concat("operation ", operation, " (", what, ")");
}

std::string seconds(std::chrono::milliseconds time) {
  return formatted("%.4g s", static_cast<double>(time.count()) / 1000);
}

}  // namespace hydramix
