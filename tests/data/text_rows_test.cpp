// SPDX-License-Identifier: Apache-2.0
#include "data/text_rows.h"

#include <fstream>

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

struct TextRowsTest : ::testing::Test {
  std::string write(const std::string& name, const std::string& contents) const {
    std::ofstream(folder / name, std::ios::binary) << contents;
    return (folder / name).string();
  }
  // "first" or "first|second" of every row.
  static std::vector<std::string> read(const std::vector<std::string>& files,
                                       const TextRowOptions& options = {}) {
    TextRows rows({}, files, options);
    std::vector<std::string> all;
    for (TextRow row; rows.next(row);)
      all.push_back(row.first + (row.second ? "|" + *row.second : ""));
    EXPECT_EQ(rows.consumed(), rows.total());
    return all;
  }
  test::TemporaryFolder folder;
};

using Texts = std::vector<std::string>;

TEST_F(TextRowsTest, EveryLineIsAText) {
  EXPECT_EQ(read({write("a.txt", "\xEF\xBB\xBFone\r\n\ntwo \"2\"\tx"), write("b.txt", "three\n")}),
            (Texts{"one", "", "two \"2\"\tx", "three"}));
  EXPECT_EQ(read({write("empty.txt", "")}), Texts{});
}

TEST_F(TextRowsTest, JsonLinesHoldTextsPairsOrObjects) {
  const auto file = write("a.jsonl",
                          "\"one\"\n\n[\"two\", \"2\"]\n"
                          "{\"id\": [1, {}], \"text\": \"thr\\u00e9e\", \"b\": \"3\"}\n");
  EXPECT_EQ(read({file}), (Texts{"one", "two|2",
                                 "thr\xC3\xA9"
                                 "e"}));
  EXPECT_EQ(read({write("b.json", "{\"a\": \"x\", \"b\": \"y\"}\n")},
                 {.field = "a", .second_field = "b"}),
            Texts{"x|y"});
  EXPECT_EQ(read({file}, {.format = "text"}).size(), 4u) << "the format wins over the name";
}

TEST_F(TextRowsTest, TablesHaveNamedColumns) {
  const auto file = write("a.tsv", "id\ttext\tother\n1\tone\t\xC3\xA9\n2\t\"two\tt\n");
  EXPECT_EQ(read({file}), (Texts{"one", "\"two"}));
  EXPECT_EQ(read({file}, {.field = "other", .second_field = "id"}), (Texts{"\xC3\xA9|1", "t|2"}));
}

TEST_F(TextRowsTest, GivenTextsComeFirst) {
  TextRows rows({{.first = "given", .second = {}, .where = "here", .is_argument = true}},
                {write("a.txt", "line\n")}, {});
  TextRow row;
  ASSERT_TRUE(rows.next(row));
  EXPECT_EQ(row.first, "given");
  EXPECT_TRUE(row.is_argument);
  ASSERT_TRUE(rows.next(row));
  EXPECT_EQ(row.where, (folder / "a.txt").string() + ": line 1");
  EXPECT_FALSE(row.is_argument);
  EXPECT_FALSE(rows.next(row));
}

TEST_F(TextRowsTest, MistakesNameFileAndLine) {
  const std::string at = folder.path().string() + "/";
  EXPECT_THROW_WITH(read({write("a.jsonl", "\"x\"\n{\"body\": \"x\"}\n")}), Error,
                    at + "a.jsonl: line 2: has no field \"text\"; there are: body.");
  EXPECT_THROW_WITH(read({write("b.jsonl", "{\"txt\": 1}\n")}), Error, "Did you mean 'txt'?");
  EXPECT_THROW_WITH(read({write("c.jsonl", "{\"text\": 1}\n")}), Error, "is 1; expected a text");
  EXPECT_THROW_WITH(read({write("d.jsonl", "one\n")}), Error, "line 1: \"one\" is not JSON");
  EXPECT_THROW_WITH(read({write("e.jsonl", "[\"a\"]\n")}), Error, "expected two texts");
  EXPECT_THROW_WITH(read({write("f.jsonl", "7\n")}), Error, "neither a text nor");
  EXPECT_THROW_WITH(read({write("g.jsonl", std::string(100'000, '[') + "\n")}), Error,
                    "g.jsonl: line 1: ");
  EXPECT_THROW_WITH(read({write("a.tsv", "id\tsentence\n1\tx\n")}), Error,
                    "a.tsv: line 1: the table has no column \"text\"; its first line names: id");
  EXPECT_THROW_WITH(read({write("b.tsv", "id\ttext\n1\n")}), Error,
                    "line 2: has 1 cell, the first line 2");
  EXPECT_THROW_WITH(read({at + "absent.txt"}), Error, "absent.txt: cannot be opened");
  EXPECT_THROW_WITH(read({write("long.txt", std::string((16 << 20) + 1, 'x'))}), Error, "long.txt");
  EXPECT_THROW_WITH(read({"-", "-"}), UsageError, "given twice");
}

}  // namespace
}  // namespace hydramix
