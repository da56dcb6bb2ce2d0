// SPDX-License-Identifier: Apache-2.0
// Reads the wire format of Protocol Buffers for tests: the fields of a message by their number.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hydramix::test {

class Message {
 public:
  explicit Message(std::string_view bytes) {
    while (!bytes.empty()) {
      const uint64_t key = number(bytes);
      const auto field = static_cast<int>(key >> 3);
      switch (key & 7) {
        case 0:
          numbers_[field].push_back(static_cast<int64_t>(number(bytes)));
          break;
        case 2:
          texts_[field].push_back(taken(bytes, number(bytes)));
          break;
        case 5:
          texts_[field].push_back(taken(bytes, 4));
          break;
        default:
          throw std::runtime_error("unexpected wire type");
      }
    }
  }

  std::vector<int64_t> integers(int field) const { return of(numbers_, field); }
  int64_t integer(int field) const { return numbers_.at(field).at(0); }
  std::vector<std::string_view> texts(int field) const { return of(texts_, field); }
  std::string text(int field) const { return std::string(texts_.at(field).at(0)); }
  std::vector<Message> messages(int field) const {
    std::vector<Message> all;
    for (const auto bytes : texts(field)) all.emplace_back(bytes);
    return all;
  }
  Message message(int field) const { return Message(texts_.at(field).at(0)); }

 private:
  static uint64_t number(std::string_view& bytes) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(taken(bytes, 1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  static std::string_view taken(std::string_view& bytes, uint64_t count) {
    if (bytes.size() < count) throw std::runtime_error("the message ends within a field");
    const auto part = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return part;
  }
  template <class Map>
  static typename Map::mapped_type of(const Map& map, int field) {
    const auto found = map.find(field);
    return found == map.end() ? typename Map::mapped_type{} : found->second;
  }

  std::map<int, std::vector<int64_t>> numbers_;
  std::map<int, std::vector<std::string_view>> texts_;
};

}  // namespace hydramix::test
