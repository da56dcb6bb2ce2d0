// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace hydramix {

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(std::string_view text);
// Proves that its author knows the key.
Sha256 hmac_sha256(std::string_view key, std::string_view text);

}  // namespace hydramix
