// SPDX-License-Identifier: Apache-2.0
#include "data/csv_reader.h"

#include "base/atomic_file.h"
#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using CsvRow = std::vector<std::string>;

struct CsvReaderTest : ::testing::Test {
  test::TemporaryFolder folder;

  std::vector<CsvRow> rows(const std::string& text) const {
    write_file(folder / "a.csv", text);
    CsvReader reader(folder / "a.csv");
    std::vector<CsvRow> all;
    while (reader.next()) all.push_back(reader.cells());
    return all;
  }
};

TEST_F(CsvReaderTest, ReadsQuotedCellsAsTheStandardSays) {
  EXPECT_EQ(rows("a,b\n1,2\n"), (std::vector<CsvRow>{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(rows("\"a,b\",\"say \"\"hi\"\"\"\n"), (std::vector<CsvRow>{{"a,b", "say \"hi\""}}));
  EXPECT_EQ(rows("\"two\r\nlines\",\"\"\n"), (std::vector<CsvRow>{{"two\r\nlines", ""}}));
  EXPECT_EQ(rows(",\n,,\n"), (std::vector<CsvRow>{{"", ""}, {"", "", ""}}));
  EXPECT_EQ(rows("\"\"\"\"\n"), (std::vector<CsvRow>{{"\""}}));
  EXPECT_EQ(rows(" a , \tb \n"),
            (std::vector<CsvRow>{{" a ", " \tb "}}));  // blanks belong to cells
}

TEST_F(CsvReaderTest, AcceptsMarksEndsAndBlankLines) {
  EXPECT_EQ(rows("\xEF\xBB\xBF"
                 "a\r\n\r\n\nb"),
            (std::vector<CsvRow>{{"a"}, {"b"}}));
  EXPECT_TRUE(rows("").empty());
  EXPECT_TRUE(rows("\n\r\n").empty());
}

TEST_F(CsvReaderTest, CountsLinesWithinCells) {
  write_file(folder / "a.csv", "x,y\n\"1\n2\n3\",b\nlast,one\n");
  CsvReader reader(folder / "a.csv");
  std::vector<int64_t> lines;
  while (reader.next()) lines.push_back(reader.line());
  EXPECT_EQ(lines, (std::vector<int64_t>{1, 2, 5}));
}

// The buffer holds 256 KiB, so these cells and quotes cross its end.
TEST_F(CsvReaderTest, CellsMayCrossTheBuffer) {
  const std::string longest(300000, 'x');
  std::string quotes;
  for (int i = 0; i < 150000; ++i) quotes += "\"\"";
  const auto all = rows(longest + ",\"" + quotes + "\"\nb,c\n");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0][0], longest);
  EXPECT_EQ(all[0][1], std::string(150000, '"'));
}

TEST_F(CsvReaderTest, WhatTheStandardForbidsIsAnErrorWithItsLine) {
  EXPECT_THROW_WITH(rows("a\n5\" disk,b\n"), Error, "a.csv: line 2: cell 1 has a quote");
  EXPECT_THROW_WITH(rows("a\n\"x\" y,b\n"), Error,
                    "line 2: text follows the closing quote of cell 1");
  EXPECT_THROW_WITH(rows("a\nb,\"open\nc\n"), Error, "line 2: the quote of cell 2 is not closed");
  EXPECT_THROW_WITH(rows("a\rb\n"), Error, "line 1: has a carriage return");
  EXPECT_THROW_WITH(rows("a\n\xff\n"), Error, "a.csv: line 2");
}

TEST_F(CsvReaderTest, ARowOfTooManyCellsIsRefused) {
  EXPECT_EQ(rows("a\n" + std::string(1000, ',') + "\n").at(1).size(), 1001U);
  EXPECT_THROW_WITH(rows("a\n" + std::string(1 << 20, ',') + "\n"), Error,
                    "a.csv: line 2 begins a row of more than 1048576 cells");
}

TEST_F(CsvReaderTest, FingerprintsAreOfTheBytes) {
  const auto fingerprint = [&](const std::string& text) {
    rows(text);
    CsvReader reader(folder / "a.csv");
    while (reader.next()) {
    }
    return reader.fingerprint();
  };
  EXPECT_EQ(fingerprint("a,b\n"), fingerprint("a,b\n"));
  EXPECT_NE(fingerprint("a,b\n"), fingerprint("a,\"b\"\n"));
}

}  // namespace
}  // namespace hydramix
