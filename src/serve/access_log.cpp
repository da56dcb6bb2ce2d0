// SPDX-License-Identifier: Apache-2.0
#include "serve/access_log.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <ctime>

#include "base/formatted.h"
#include "base/quotes.h"

namespace hydramix::serve {

std::string access_line(const AccessRecord& record, std::chrono::system_clock::time_point time) {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char day[32];
  std::strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &utc);
  nlohmann::ordered_json line{
      {"time", formatted("%s.%03lldZ", day, milliseconds % 1000)},
      {"id", record.request.id},
      {"client", record.client},
      {"method", clipped(record.request.method, 20)},
      {"path", clipped(record.request.path, 200)},
      {"status", record.answer.status},
      {"bytes", record.bytes},
      {"ms", static_cast<double>(static_cast<int64_t>(record.seconds * 1e6)) / 1e3}};
  if (!record.answer.model.empty()) line["model"] = record.answer.model;
  if (record.answer.tokens > 0) line["tokens"] = record.answer.tokens;
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void write_access_line(const AccessRecord& record) {
  const auto line = access_line(record, std::chrono::system_clock::now());
  std::fwrite(line.data(), 1, line.size(), stderr);  // locks the stream: lines do not mix
}

}  // namespace hydramix::serve
