// SPDX-License-Identifier: Apache-2.0
#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace hydramix {
namespace {

std::vector<std::byte> random_bytes(std::size_t size) {
  std::mt19937 random(5);
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// The values of RFC 3720, appendix B.4.
TEST(Crc32c, HasThePublishedValues) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
}

TEST(Crc32c, InstructionAndTableAgreeAtEverySizeAndAlignment) {
  const auto bytes = random_bytes(40'000);
  const std::span<const std::byte> all(bytes);
  for (const std::size_t size : {0, 1, 7, 8, 9, 63, 4096, 12287, 12288, 12289, 24576, 39'990})
    for (std::size_t begin = 0; begin < 9; ++begin) {
      const auto part = all.subspan(begin, size);
      EXPECT_EQ(crc32c(part, 77), crc32c_by_table(part, 77)) << size << " from " << begin;
    }
}

TEST(Crc32c, ContinuesFromTheSumOfEarlierBytes) {
  const auto bytes = random_bytes(30'000);
  const std::span<const std::byte> all(bytes);
  for (const std::size_t cut : {0, 1, 100, 12288, 29'999, 30'000})
    EXPECT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), crc32c(all)) << cut;
}

TEST(Crc32c, ASumHasOneSpelling) {
  EXPECT_EQ(checksum_text(0x00AB12CD), "00ab12cd");
  EXPECT_EQ(parse_checksum("00ab12cd"), 0x00AB12CDu);
  for (const char* text : {"", "ab12cd", "00AB12CD", "00ab12cd0", "00ab12cx", "-0ab12cd"})
    EXPECT_EQ(parse_checksum(text), std::nullopt) << text;
}

}  // namespace
}  // namespace hydramix
