// SPDX-License-Identifier: Apache-2.0
// The messages between a rank and the store after the handshake: a length, a code, and texts with
// their lengths. Numbers are little-endian, 4 bytes. A longer message than kLongestMessage is
// refused before any of it is read, so a wrong length costs no memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydramix {

constexpr std::size_t kLongestMessage = 1 << 20;
constexpr std::size_t kLengthBytes = 4;

enum class Code : uint8_t {
  // Requests, with their texts
  kSet,         // key, value
  kGet,         // key
  kAdd,         // key, decimal number; answers with the sum
  kCheck,       // keys; kYes when all exist
  kCompareSet,  // key, expected, desired: sets a key that is missing or has the expected value
  kDelete,      // key
  kCount,       // answers with the number of keys
  // Answers
  kYes,  // with the value, if the request has one
  kNo,   // the key is missing
};

struct StoreMessage {
  Code code;
  std::vector<std::string> texts;

  std::string bytes() const;  // with its length in front
  // `body` follows the length. An Error when it is malformed.
  static StoreMessage parse(std::string_view body);
};

// The length in front of a message. An Error when it is above kLongestMessage.
std::size_t message_length(std::string_view bytes);

}  // namespace hydramix
