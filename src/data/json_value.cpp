// SPDX-License-Identifier: Apache-2.0
#include "data/json_value.h"

namespace hydramix {

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace hydramix
