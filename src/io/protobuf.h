// SPDX-License-Identifier: Apache-2.0
// Writes the wire format of Protocol Buffers: a message is its fields end to end, each a key (field
// number and kind), then the value. A message inside another is a field of bytes.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace hydramix::protobuf {

template <class Integer>
std::string little_endian(Integer value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  return bytes;
}

enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  bytes += static_cast<char>(value);
  return bytes;
}

inline std::string key(uint32_t field, Wire wire) { return varint(field << 3 | wire); }

inline std::string integer_field(uint32_t field, int64_t value) {
  return key(field, kVarint) + varint(static_cast<uint64_t>(value));
}
inline std::string double_field(uint32_t field, double value) {
  return key(field, kFixed64) + little_endian(std::bit_cast<uint64_t>(value));
}
inline std::string float_field(uint32_t field, float value) {
  return key(field, kFixed32) + little_endian(std::bit_cast<uint32_t>(value));
}
// The start of a field of `size` bytes, which the caller writes after it.
inline std::string bytes_head(uint32_t field, uint64_t size) {
  return key(field, kBytes) + varint(size);
}
inline std::string bytes_field(uint32_t field, std::string_view bytes) {
  return bytes_head(field, bytes.size()).append(bytes);
}

}  // namespace hydramix::protobuf
