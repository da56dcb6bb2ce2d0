// SPDX-License-Identifier: Apache-2.0
// Extracts one string of a JSON object without building the rest.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hydramix {

struct JsonField {
  std::optional<std::string> text;
  bool found_other = false;  // the field is there, but not a string
  std::string other_fields;  // "url, timestamp": the other fields, for messages
  std::string error;         // why it is not JSON; else empty
};

// The field `name` of the object at the top. Where it is repeated, the last one counts.
JsonField json_field(std::string_view json, std::string_view name);

}  // namespace hydramix
