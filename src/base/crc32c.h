// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli), the checksum of everything we write: any damage within 32 consecutive bits
// changes it, other damage all but once in 2^32. Processors have an instruction for it, so that it
// costs less than reading the bytes from memory. Detects accidental changes; not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hydramix {

// Continues from `so_far`, the sum of the bytes before: crc32c(b, crc32c(a)) is that of a and b
// together.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t so_far = 0);
std::uint32_t crc32c(std::string_view text, std::uint32_t so_far = 0);

// The same without the instruction, for other processors and for tests.
std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t so_far = 0);

// Eight lower-case hexadecimal digits, as files spell a checksum; nothing for any other text.
std::string checksum_text(std::uint32_t sum);
std::optional<std::uint32_t> parse_checksum(std::string_view text);

}  // namespace hydramix
