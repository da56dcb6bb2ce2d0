// SPDX-License-Identifier: Apache-2.0
// Numbers of 4 bytes in what ranks and the store send each other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hydramix {

inline void append_u32(std::string& bytes, uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(number >> shift & 0xFF);
}

// `bytes` has at least 4 from `at` on.
inline uint32_t u32_at(std::string_view bytes, std::size_t at) {
  uint32_t number = 0;
  for (std::size_t k = 0; k < 4; ++k)
    number |= uint32_t{static_cast<unsigned char>(bytes[at + k])} << 8 * k;
  return number;
}

}  // namespace hydramix
