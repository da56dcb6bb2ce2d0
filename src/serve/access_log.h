// SPDX-License-Identifier: Apache-2.0
// One JSON line per request on stderr: time, request id, client, method, path, status, bytes of the
// answer, milliseconds, and what was computed. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "serve/http_message.h"

namespace hydramix::serve {

struct AccessRecord {
  const HttpRequest& request;
  const HttpAnswer& answer;
  std::string client;     // address
  std::size_t bytes = 0;  // of the answer's body
  double seconds = 0;
};

std::string access_line(const AccessRecord& record, std::chrono::system_clock::time_point time);

void write_access_line(const AccessRecord& record);

}  // namespace hydramix::serve
