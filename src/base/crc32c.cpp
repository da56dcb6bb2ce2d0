// SPDX-License-Identifier: Apache-2.0
// The instruction has a latency of 3 cycles and a throughput of 1, so three chains run side by side
// over three parts of a block. Their sums are joined by a table that advances a sum over as many
// zero bytes as a part has: CRC(a b) = CRC(a 0...0) xor CRC(b), without the inversions at the ends.
#include "base/crc32c.h"

#include <array>
#include <charconv>
#include <cstring>

#if defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace hydramix {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // bits reversed

using ByteTable = std::array<std::array<std::uint32_t, 256>, 8>;

// [k][b]: the sum of the byte b and k zero bytes after it.
constexpr ByteTable make_byte_tables() {
  ByteTable tables = {};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t sum = b;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ (sum & 1 ? kPolynomial : 0);
    tables[0][b] = sum;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t b = 0; b < 256; ++b)
      tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 0xFF];
  return tables;
}

constexpr ByteTable kByteTables = make_byte_tables();

std::uint64_t load_word(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// The functions below take and return sums without the inversions.

std::uint32_t table_sum(const std::byte* at, std::size_t size, std::uint32_t sum) {
  for (; size >= 8; at += 8, size -= 8) {
    const std::uint64_t word = load_word(at) ^ sum;
    sum = 0;
    for (std::size_t k = 0; k < 8; ++k) sum ^= kByteTables[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; size > 0; ++at, --size)
    sum = (sum >> 8) ^ kByteTables[0][(sum ^ std::to_integer<std::uint32_t>(*at)) & 0xFF];
  return sum;
}

#if defined(__x86_64__) || defined(__aarch64__)

#if defined(__x86_64__)
#define HYDRAMIX_CRC_TARGET __attribute__((target("sse4.2")))
HYDRAMIX_CRC_TARGET inline std::uint64_t crc_word(std::uint64_t sum, std::uint64_t word) {
  return _mm_crc32_u64(sum, word);
}
HYDRAMIX_CRC_TARGET inline std::uint32_t crc_byte(std::uint32_t sum, std::byte byte) {
  return _mm_crc32_u8(sum, std::to_integer<unsigned char>(byte));
}
bool has_instruction() { return __builtin_cpu_supports("sse4.2") != 0; }
#else
#define HYDRAMIX_CRC_TARGET __attribute__((target("+crc")))
HYDRAMIX_CRC_TARGET inline std::uint64_t crc_word(std::uint64_t sum, std::uint64_t word) {
  return __crc32cd(static_cast<std::uint32_t>(sum), word);
}
HYDRAMIX_CRC_TARGET inline std::uint32_t crc_byte(std::uint32_t sum, std::byte byte) {
  return __crc32cb(sum, std::to_integer<unsigned char>(byte));
}
bool has_instruction() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
#endif

constexpr std::size_t kPart = 4096;  // three parts stay in the first-level cache

// [k][b]: the byte b at place k of a sum, advanced over kPart zero bytes. Advancing is linear.
using AdvanceTable = std::array<std::array<std::uint32_t, 256>, 4>;

AdvanceTable make_advance_table() {
  static constexpr std::array<std::byte, kPart> kZeros = {};
  AdvanceTable table = {};
  for (std::size_t k = 0; k < 4; ++k)
    for (std::uint32_t b = 0; b < 256; ++b)
      table[k][b] = table_sum(kZeros.data(), kPart, b << (8 * k));
  return table;
}

std::uint64_t advanced(const AdvanceTable& table, std::uint64_t sum) {
  return table[0][sum & 0xFF] ^ table[1][(sum >> 8) & 0xFF] ^ table[2][(sum >> 16) & 0xFF] ^
         table[3][(sum >> 24) & 0xFF];
}

HYDRAMIX_CRC_TARGET std::uint32_t instruction_sum(const std::byte* at, std::size_t size,
                                                  std::uint32_t start) {
  static const AdvanceTable advance = make_advance_table();
  std::uint64_t sum = start;
  for (; size >= 3 * kPart; at += 3 * kPart, size -= 3 * kPart) {
    std::uint64_t second = 0, third = 0;
    for (const std::byte* word = at; word < at + kPart; word += 8) {
      sum = crc_word(sum, load_word(word));
      second = crc_word(second, load_word(word + kPart));
      third = crc_word(third, load_word(word + 2 * kPart));
    }
    sum = advanced(advance, advanced(advance, sum) ^ second) ^ third;
  }
  for (; size >= 8; at += 8, size -= 8) sum = crc_word(sum, load_word(at));
  auto narrow = static_cast<std::uint32_t>(sum);
  for (; size > 0; ++at, --size) narrow = crc_byte(narrow, *at);
  return narrow;
}

#else

bool has_instruction() { return false; }
std::uint32_t instruction_sum(const std::byte* at, std::size_t size, std::uint32_t start) {
  return table_sum(at, size, start);
}

#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t so_far) {
  static const bool fast = has_instruction();
  return fast ? ~instruction_sum(bytes.data(), bytes.size(), ~so_far)
              : crc32c_by_table(bytes, so_far);
}

std::uint32_t crc32c(std::string_view text, std::uint32_t so_far) {
  return crc32c(std::as_bytes(std::span<const char>(text)), so_far);
}

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t so_far) {
  return ~table_sum(bytes.data(), bytes.size(), ~so_far);
}

std::string checksum_text(std::uint32_t sum) {
  std::string text(8, '0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = "0123456789abcdef"[(sum >> (28 - 4 * i)) & 0xF];
  return text;
}

std::optional<std::uint32_t> parse_checksum(std::string_view text) {
  std::uint32_t sum = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), sum, 16);
  // Only one spelling, so that damage to the text is damage to the sum.
  if (parsed.ec != std::errc() || checksum_text(sum) != text) return std::nullopt;
  return sum;
}

}  // namespace hydramix
