// SPDX-License-Identifier: Apache-2.0
#include "data/json_value.h"

namespace hydramix {

nlohmann::ordered_json parse_json_file(const std::string& contents, const std::string& origin) {
  try {
    return nlohmann::ordered_json::parse(contents);
  } catch (const nlohmann::json::parse_error& error) {
    throw Error(concat(origin, ": is not JSON at byte ", error.byte,
                       ". The file is damaged: restore it, or make the data set again."));
  }
}

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace hydramix
