// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace hydramix {

inline constexpr uint64_t kFnvStart = 0xCBF29CE484222325;

// FNV-1a with 64 bits: the same on every machine, unlike std::hash, and goes on from an earlier
// value. It tells what was exchanged by mistake, not by an enemy.
constexpr uint64_t fnv1a(std::string_view bytes, uint64_t hash = kFnvStart) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  return hash;
}

}  // namespace hydramix
