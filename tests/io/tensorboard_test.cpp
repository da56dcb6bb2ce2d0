// SPDX-License-Identifier: Apache-2.0
// Parses event files with code that is independent of the writer, except for the CRC, which is
// checked against known values.
#include "io/tensorboard.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using test::TemporaryFolder;

template <class Number>
Number number_at(const std::string& bytes, std::size_t at) {
  static_assert(std::endian::native == std::endian::little);
  Number number;
  EXPECT_LE(at + sizeof number, bytes.size());
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

void expect_masked_crc(const std::string& data, uint32_t stored) {
  const uint32_t unrotated = stored - 0xa282ead8u;
  EXPECT_EQ((unrotated << 15) | (unrotated >> 17), crc32c(data));
}

std::vector<std::string> records(const std::string& file) {
  std::vector<std::string> all;
  std::size_t at = 0;
  while (at < file.size()) {
    const auto length = number_at<uint64_t>(file, at);
    expect_masked_crc(file.substr(at, 8), number_at<uint32_t>(file, at + 8));
    all.push_back(file.substr(at + 12, length));
    expect_masked_crc(all.back(), number_at<uint32_t>(file, at + 12 + length));
    at += length + 16;
  }
  EXPECT_EQ(at, file.size());
  return all;
}

// A message as field -> raw value: numbers as bytes, strings and messages unchanged.
std::map<int, std::string> message(const std::string& bytes) {
  std::map<int, std::string> fields;
  std::size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.size()) {
    const auto key = varint();
    std::size_t size = 0;
    std::string value;
    switch (key & 7) {
      case 0: {
        const uint64_t number = varint();
        value.assign(reinterpret_cast<const char*>(&number), sizeof number);
        break;
      }
      case 1:
        size = 8;
        break;
      case 2:
        size = varint();
        break;
      case 5:
        size = 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
    }
    if (value.empty()) value = bytes.substr(at, size);
    at += size;
    EXPECT_TRUE(fields.emplace(static_cast<int>(key >> 3), value).second);
  }
  EXPECT_EQ(at, bytes.size());
  return fields;
}

TEST(Crc32c, HasTheKnownValues) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string up;
  for (char c = 0; c < 32; ++c) up += c;
  EXPECT_EQ(crc32c(up), 0x46dd794eu);
}

TEST(TensorBoardWriter, WritesTheVersionThenScalars) {
  const TemporaryFolder folder;
  TensorBoardWriter writer(folder / "runs");
  EXPECT_EQ(writer.path().filename().string().rfind("events.out.tfevents.", 0), 0u);
  writer.scalar("train/loss", 2.5, 300, 1.7e9);
  writer.scalar("rate", -1e-3, 1LL << 40, 1.7e9 + 0.25);
  writer.flush();
  const auto events = records(read_file(writer.path()));
  ASSERT_EQ(events.size(), 3u);

  auto fields = message(events[0]);
  EXPECT_EQ(fields.at(3), "brain.Event:2");
  EXPECT_GT(number_at<double>(fields.at(1), 0), 1.6e9);

  fields = message(events[1]);
  EXPECT_EQ(number_at<double>(fields.at(1), 0), 1.7e9);
  EXPECT_EQ(number_at<int64_t>(fields.at(2), 0), 300);
  auto value = message(message(fields.at(5)).at(1));
  EXPECT_EQ(value.at(1), "train/loss");
  EXPECT_EQ(number_at<float>(value.at(2), 0), 2.5f);

  fields = message(events[2]);
  EXPECT_EQ(number_at<double>(fields.at(1), 0), 1.7e9 + 0.25);
  EXPECT_EQ(number_at<int64_t>(fields.at(2), 0), 1LL << 40);
  value = message(message(fields.at(5)).at(1));
  EXPECT_EQ(number_at<float>(value.at(2), 0), -1e-3f);
}

TEST(TensorBoardWriter, KeepsNonFiniteValues) {
  const TemporaryFolder folder;
  TensorBoardWriter writer(folder.path());
  writer.scalar("loss", std::numeric_limits<double>::quiet_NaN(), 1, 0);
  writer.scalar("loss", std::numeric_limits<double>::infinity(), 2, 0);
  writer.flush();
  const auto events = records(read_file(writer.path()));
  const auto simple_value = [&](std::size_t i) {
    return number_at<float>(message(message(message(events.at(i)).at(5)).at(1)).at(2), 0);
  };
  EXPECT_TRUE(std::isnan(simple_value(1)));
  EXPECT_TRUE(std::isinf(simple_value(2)));
}

TEST(TensorBoardWriter, AResumedRunWritesItsFirstStepToANewFile) {
  const TemporaryFolder folder;
  std::set<std::string> paths;
  for (int start = 0; start < 3; ++start) {
    TensorBoardWriter writer(folder.path());
    paths.insert(writer.path().string());
    writer.start(100 * start, 5);
    writer.flush();
    const auto fields = message(records(read_file(writer.path())).at(1));
    EXPECT_EQ(number_at<int64_t>(fields.at(2), 0), 100 * start);
    EXPECT_EQ(number_at<int64_t>(message(fields.at(7)).at(1), 0), 1) << "SessionLog.START";
  }
  EXPECT_EQ(paths.size(), 3u);
}

TEST(TensorBoardWriter, WritesManyRecordsWithoutFlush) {
  const TemporaryFolder folder;
  std::filesystem::path path;
  {
    TensorBoardWriter writer(folder.path());
    path = writer.path();
    for (int step = 0; step < 5000; ++step) writer.scalar("loss", step, step, step);
    EXPECT_GT(std::filesystem::file_size(path), 100000u) << "it must not keep everything in memory";
  }
  EXPECT_EQ(records(read_file(path)).size(), 5001u);
}

TEST(TensorBoardWriter, NamesWhatItCannotWrite) {
  const TemporaryFolder folder;
  write_file(folder / "file", "x");
  EXPECT_THROW_WITH(TensorBoardWriter((folder / "file") / "runs"), Error, "file/runs");
  TensorBoardWriter writer(folder.path());
  EXPECT_THROW_WITH(writer.scalar("", 1, 2, 3), Error, "has no tag");
}

}  // namespace
}  // namespace hydramix
