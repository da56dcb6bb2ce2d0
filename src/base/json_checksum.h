// SPDX-License-Identifier: Apache-2.0
// A checksum inside a JSON object, under the key "crc32c". It is that of the meaning, not of the
// text: keys in another order or other spaces, as other programs write them, change nothing.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace hydramix {

inline constexpr const char* kJsonChecksum = "crc32c";

// CRC-32C of the value written with sorted keys and without spaces. Recurses: the depth must be
// limited, as parse_json() does.
std::uint32_t json_checksum(const nlohmann::json& value);
std::uint32_t json_checksum(const nlohmann::ordered_json& value);

// Adds the checksum of all other keys to an object.
void set_json_checksum(nlohmann::ordered_json& object);

// False if the object has no checksum; throws an Error if it does not match. `advice` ends the
// message.
bool check_json_checksum(const nlohmann::ordered_json& object, const std::string& origin,
                         std::string_view advice);

}  // namespace hydramix
