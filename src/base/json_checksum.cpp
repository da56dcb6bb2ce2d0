// SPDX-License-Identifier: Apache-2.0
#include "base/json_checksum.h"

#include "base/crc32c.h"
#include "base/quotes.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

std::string sum_without_key(const nlohmann::ordered_json& object) {
  nlohmann::json rest(object);
  rest.erase(kJsonChecksum);
  return checksum_text(json_checksum(rest));
}

}  // namespace

std::uint32_t json_checksum(const nlohmann::json& value) {
  // Bytes that are not UTF-8 are replaced, as they are when the file is written.
  return crc32c(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::uint32_t json_checksum(const nlohmann::ordered_json& value) {
  return json_checksum(nlohmann::json(value));
}

void set_json_checksum(nlohmann::ordered_json& object) {
  object[kJsonChecksum] = sum_without_key(object);
}

bool check_json_checksum(const nlohmann::ordered_json& object, const std::string& origin,
                         std::string_view advice) {
  if (!object.is_object() || !object.contains(kJsonChecksum)) return false;
  const auto& recorded = object[kJsonChecksum];
  const std::string sum = sum_without_key(object);
  HYDRAMIX_CHECK(recorded == sum, origin, ": the checksum of its values is ", sum, ", '",
                 kJsonChecksum, "' is ", clipped(recorded.dump(-1, ' ', true), 80), ". ", advice);
  return true;
}

}  // namespace hydramix
