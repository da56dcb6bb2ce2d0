// SPDX-License-Identifier: Apache-2.0
// NumPy files, byte by byte: the expected header is written out, not computed by the code under
// test.
#include "view/npy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/read_file.h"
#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using test::TemporaryFolder;

// The file of `shape`, filled with 0, 1, 2, ...
template <class T>
std::string file_of(const std::vector<int64_t>& shape, std::size_t count) {
  TemporaryFolder folder;
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(i);
  write_npy(folder / "a.npy", shape, std::span<const T>(values));
  return read_file(folder / "a.npy");
}

TEST(Npy, HeaderIsExact) {
  const std::string dict = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }";
  std::string expected("\x93NUMPY\x01\x00\x76\x00", 10);  // 0x76 = 118 = 128 - 10
  expected += dict + std::string(117 - dict.size(), ' ') + "\n";
  ASSERT_EQ(expected.size(), 128u);
  EXPECT_EQ(file_of<double>({2, 3}, 6).substr(0, 128), expected);
}

TEST(Npy, ShapesAreWrittenAsPythonTuples) {
  EXPECT_NE(file_of<double>({}, 1).find("'shape': (), }"), std::string::npos);
  EXPECT_NE(file_of<double>({5}, 5).find("'shape': (5,), }"), std::string::npos);
  EXPECT_NE(file_of<float>({1, 2, 3}, 6).find("'descr': '<f4'"), std::string::npos);
  EXPECT_NE(file_of<float>({1, 2, 3}, 6).find("'shape': (1, 2, 3), }"), std::string::npos);
}

TEST(Npy, DataStartsAtAMultipleOf64WhateverTheShape) {
  for (std::size_t dimensions = 0; dimensions < 60; ++dimensions) {
    const std::string file = file_of<float>(std::vector<int64_t>(dimensions, 1), 1);
    const std::size_t data = file.size() - sizeof(float);
    EXPECT_EQ(data % 64, 0u) << dimensions;
    EXPECT_EQ(file[data - 1], '\n') << dimensions;
    const auto low = static_cast<unsigned char>(file[8]),
               high = static_cast<unsigned char>(file[9]);
    EXPECT_EQ(10u + low + 256u * high, data) << dimensions;
  }
}

TEST(Npy, ValuesComeBackBitForBit) {
  TemporaryFolder folder;
  const std::vector<double> values{1.0 / 3, -0.0, 5e-324, std::numeric_limits<double>::infinity()};
  write_npy(folder / "a.npy", {2, 2}, std::span<const double>(values));
  const std::string file = read_file(folder / "a.npy");
  ASSERT_EQ(file.size(), 128 + 32u);
  EXPECT_EQ(std::memcmp(file.data() + 128, values.data(), 32), 0);

  const std::vector<float> single{1.0f / 3, -2.5f};
  write_npy(folder / "b.npy", {2}, std::span<const float>(single));
  const std::string narrow = read_file(folder / "b.npy");
  ASSERT_EQ(narrow.size(), 128 + 8u);
  EXPECT_EQ(std::memcmp(narrow.data() + 128, single.data(), 8), 0);
}

TEST(Npy, EmptyArraysAreAllowed) { EXPECT_EQ(file_of<double>({0, 7}, 0).size(), 128u); }

TEST(Npy, ShapesThatDoNotHoldTheValuesAreRefused) {
  TemporaryFolder folder;
  const std::vector<double> six(6);
  const std::span<const double> values(six);
  EXPECT_THROW_WITH(write_npy(folder / "a.npy", {2, 4}, values), Error,
                    "shape (2, 4) does not hold the 6 values");
  EXPECT_THROW_WITH(write_npy(folder / "a.npy", {-2, -3}, values), Error, "(-2, -3)");
  EXPECT_THROW_WITH(write_npy(folder / "a.npy", {0, 6}, values), Error, "(0, 6)");
  const int64_t half = int64_t{1} << 32;  // half * half * ... wraps around to 0 and to anything
  EXPECT_THROW_WITH(write_npy(folder / "a.npy", {half, half, 6}, values), Error, "does not hold");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "a refused file must leave nothing";
}

TEST(Npy, AnUnwritablePathIsNamed) {
  TemporaryFolder folder;
  const std::vector<double> one(1);
  EXPECT_THROW_WITH(write_npy(folder / "missing/a.npy", {1}, std::span<const double>(one)), Error,
                    "missing/a.npy: cannot be created");
}

}  // namespace
}  // namespace hydramix
