// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace hydramix {

inline constexpr uint64_t kFnvStart = 0xCBF29CE484222325;

// 64-bit FNV-1a, which can continue from an earlier value. Unlike std::hash it is the same on every
// machine. For fingerprints, which tell one tokenizer or data set from another; checksums of files
// are CRC-32C (base/crc32c.h), which is many times as fast.
constexpr uint64_t fnv1a(std::string_view bytes, uint64_t hash = kFnvStart) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  return hash;
}

}  // namespace hydramix
