// SPDX-License-Identifier: Apache-2.0
#include "dist/store_message.h"

#include "hydramix/error.h"

namespace hydramix {
namespace {

void append_length(std::string& bytes, std::size_t length) {
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(length >> shift & 0xFF);
}

std::size_t length_at(std::string_view bytes) {
  std::size_t length = 0;
  for (std::size_t k = 0; k < kLengthBytes; ++k)
    length |= std::size_t{static_cast<unsigned char>(bytes[k])} << 8 * k;
  return length;
}

}  // namespace

std::string StoreMessage::bytes() const {
  std::string body(1, static_cast<char>(code));
  for (const auto& text : texts) {
    append_length(body, text.size());
    body += text;
  }
  HYDRAMIX_CHECK(body.size() <= kLongestMessage, "the store: a message of ", body.size(),
                 " bytes is too long; at most ", kLongestMessage, " are sent.");
  std::string result;
  append_length(result, body.size());
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
    const std::size_t length = length_at(rest);
    rest.remove_prefix(kLengthBytes);
    check(rest.size() >= length);
    message.texts.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  return message;
}

std::size_t message_length(std::string_view bytes) {
  const std::size_t length = length_at(bytes);
  HYDRAMIX_CHECK(length <= kLongestMessage, "a message of ", length, " bytes, where at most ",
                 kLongestMessage, " are sent");
  return length;
}

}  // namespace hydramix
