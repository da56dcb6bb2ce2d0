// SPDX-License-Identifier: Apache-2.0
#include "dist/store_message.h"

#include "dist/little_endian.h"
#include "hydramix/error.h"

namespace hydramix {

std::string StoreMessage::bytes() const {
  std::string body(1, static_cast<char>(code));
  for (const auto& text : texts) {
    append_u32(body, static_cast<uint32_t>(text.size()));
    body += text;
  }
  HYDRAMIX_CHECK(body.size() <= kLongestMessage, "the store: a message of ", body.size(),
                 " bytes is too long; at most ", kLongestMessage, " are sent.");
  std::string result;
  append_u32(result, static_cast<uint32_t>(body.size()));
  return result += body;
}

StoreMessage StoreMessage::parse(std::string_view body) {
  const auto check = [&](bool valid) {
    HYDRAMIX_CHECK(valid, "a message of ", body.size(), " bytes that is not the store's");
  };
  check(!body.empty() && static_cast<uint8_t>(body[0]) <= static_cast<uint8_t>(Code::kNo));
  StoreMessage message{static_cast<Code>(body[0]), {}};
  for (auto rest = body.substr(1); !rest.empty();) {
    check(rest.size() >= kLengthBytes);
    const std::size_t length = u32_at(rest, 0);
    rest.remove_prefix(kLengthBytes);
    check(rest.size() >= length);
    message.texts.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  return message;
}

std::size_t message_length(std::string_view bytes) {
  const std::size_t length = u32_at(bytes, 0);
  HYDRAMIX_CHECK(length <= kLongestMessage, "a message of ", length, " bytes, where at most ",
                 kLongestMessage, " are sent");
  return length;
}

}  // namespace hydramix
