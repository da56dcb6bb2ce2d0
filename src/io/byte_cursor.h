// SPDX-License-Identifier: Apache-2.0
// Reads little-endian numbers and byte ranges from untrusted bytes. Every read is checked against
// the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "hydramix/error.h"

namespace hydramix {

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class ByteCursor {
 public:
  // `origin` names the bytes in errors and must outlive the cursor.
  ByteCursor(std::span<const std::byte> bytes, const std::string& origin, std::size_t at = 0)
      : bytes_(bytes), origin_(origin), at_(at) {}

  std::size_t position() const { return at_; }
  std::size_t left() const { return at_ <= bytes_.size() ? bytes_.size() - at_ : 0; }

  std::span<const std::byte> take(std::uint64_t count) {
    HYDRAMIX_CHECK(count <= left(), origin_, ": byte ", at_, " begins a run of ", count,
                   " bytes, but only ", left(),
                   " are left. The file was cut short or is damaged: fetch or save it again.");
    const auto run = bytes_.subspan(at_, static_cast<std::size_t>(count));
    at_ += run.size();
    return run;
  }
  void skip(std::uint64_t count) { take(count); }

  std::uint8_t u8() { return static_cast<std::uint8_t>(little_endian(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(little_endian(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(little_endian(4)); }
  std::uint64_t u64() { return little_endian(8); }

 private:
  std::uint64_t little_endian(std::size_t count) {
    std::uint64_t number = 0;
    const auto run = take(count);
    for (std::size_t i = 0; i < count; ++i)
      number |= std::to_integer<std::uint64_t>(run[i]) << (8 * i);
    return number;
  }

  std::span<const std::byte> bytes_;
  const std::string& origin_;
  std::size_t at_;
};

}  // namespace hydramix
