// SPDX-License-Identifier: Apache-2.0
#include "serve/http_error.h"

#include <nlohmann/json.hpp>

namespace hydramix::serve {

std::string error_body(const HttpError& error, bool openai) {
  nlohmann::ordered_json body;
  if (openai)
    body["error"] = {{"message", error.what()},
                     {"type", error.status() < 500 ? "invalid_request_error" : "server_error"},
                     {"param", nullptr},
                     {"code", error.type()}};
  else
    body = {{"error", error.what()}, {"error_type", error.type()}};
  // Text from outside may not be UTF-8. Bad bytes are replaced and do not cause another error.
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace hydramix::serve
