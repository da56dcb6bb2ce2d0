// SPDX-License-Identifier: Apache-2.0
// Values of a JSON file that may be damaged or edited. An Error names file and key.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "hydramix/error.h"

namespace hydramix {

// No count or size in our files reaches this, and sums and products of a few such numbers do not
// overflow.
inline constexpr int64_t kLargestCount = int64_t{1} << 48;

inline const nlohmann::ordered_json& member(const nlohmann::ordered_json& object, const char* key,
                                            const std::string& origin) {
  HYDRAMIX_CHECK(object.is_object() && object.contains(key), origin, ": lacks the key '", key,
                 "'. The file is damaged: restore it, or make the data set again.");
  return object[key];
}

inline int64_t count_member(const nlohmann::ordered_json& object, const char* key,
                            const std::string& origin) {
  const auto& value = member(object, key, origin);
  HYDRAMIX_CHECK(
      value.is_number_unsigned() && value.get<uint64_t>() < uint64_t{kLargestCount}, origin, ": '",
      key, "' is ", value.dump(-1, ' ', true).substr(0, 80),
      ", expected a count. The file is damaged: restore it, or make the data set again.");
  return value.get<int64_t>();
}

inline std::string text_member(const nlohmann::ordered_json& object, const char* key,
                               const std::string& origin) {
  const auto& value = member(object, key, origin);
  HYDRAMIX_CHECK(value.is_string(), origin, ": '", key, "' is ",
                 value.dump(-1, ' ', true).substr(0, 80),
                 ", expected a text. The file is damaged: restore it, or make the data set again.");
  return value.get<std::string>();
}

// Ends the message about a file of a data set that cannot be parsed.
inline constexpr const char* kDamagedData =
    "The file is damaged: restore it, or make the data set again.";

// The value as readable text. JSON must be UTF-8, but paths need not be: other bytes are replaced.
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace hydramix
