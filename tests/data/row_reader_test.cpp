// SPDX-License-Identifier: Apache-2.0
#include "data/row_reader.h"

#include "base/atomic_file.h"
#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

struct RowReaderTest : ::testing::Test {
  test::TemporaryFolder folder;

  std::unique_ptr<RowReader> open(const std::string& name, const std::string& text) const {
    write_file(folder / name, text);
    return open_rows(folder / name, row_format(folder / name));
  }
};

TEST_F(RowReaderTest, NamesChooseTheFormat) {
  EXPECT_EQ(row_format("a.tsv"), RowFormat::kTsv);
  EXPECT_EQ(row_format("a.txt"), RowFormat::kTsv);
  EXPECT_EQ(row_format("a.csv.gz"), RowFormat::kCsv);
  EXPECT_EQ(row_format("a.jsonl.zst"), RowFormat::kJsonLines);
  EXPECT_EQ(row_format("b.csv/a.ndjson.xz"), RowFormat::kJsonLines);
  EXPECT_EQ(row_format("a.txt", "csv"), RowFormat::kCsv);
  EXPECT_EQ(row_format("a.csv", "jsonl"), RowFormat::kJsonLines);
  EXPECT_EQ(row_format("a.jsonl", "tsv"), RowFormat::kTsv);
}

TEST_F(RowReaderTest, TheSameRowsInThreeFormats) {
  for (const auto& [name, text] :
       {std::pair{"a.tsv", "id\ttext\n1\tsay \"hi\"\n\n2\tb\n"},
        std::pair{"a.csv", "id,text\n1,\"say \"\"hi\"\"\"\n\n2,b\n"},
        std::pair{"a.jsonl",
                  "{\"id\": 1, \"text\": \"say \\\"hi\\\"\"}\n\n{\"id\":2,\"text\":\"b\"}"}}) {
    const auto rows = open(name, text);
    ASSERT_TRUE(rows->next()) << name;
    EXPECT_EQ(rows->columns(), (std::vector<std::string>{"id", "text"})) << name;
    EXPECT_EQ(rows->value("text")->text, "say \"hi\"") << name;
    EXPECT_EQ(rows->value("id")->text, "1") << name;
    EXPECT_FALSE(rows->value("other")) << name;
    ASSERT_TRUE(rows->next()) << name;
    EXPECT_EQ(rows->value("text")->text, "b") << name;
    EXPECT_FALSE(rows->next()) << name;
  }
}

TEST_F(RowReaderTest, JsonHasNumbersTruthValuesListsAndNull) {
  const auto rows = open("a.jsonl", R"({"a": 0.5, "b": true, "c": ["x", 2], "d": null, "e": {}})");
  ASSERT_TRUE(rows->next());
  EXPECT_EQ(rows->value("a")->text, "0.5");
  EXPECT_EQ(rows->value("b")->text, "true");
  EXPECT_EQ(*rows->value("c")->list, (std::vector<std::string>{"x", "2"}));
  EXPECT_FALSE(rows->value("d"));
  EXPECT_THROW_WITH(rows->value("e"), Error, "line 1: \"e\" is an object");
  EXPECT_EQ(*json_list("[\"a\", 1]"), (std::vector<std::string>{"a", "1"}));
  EXPECT_FALSE(json_list("[a]"));
  EXPECT_FALSE(json_list("a"));
}

TEST_F(RowReaderTest, FaultsNameTheLine) {
  EXPECT_THROW_WITH(open("a.tsv", ""), Error, "a.tsv: is empty");
  EXPECT_THROW_WITH(open("a.csv", "a,a\n"), Error, "two columns are called \"a\"");
  EXPECT_THROW_WITH(open("a.tsv", "a\tb\n1\t2\t3\n")->next(), Error,
                    "line 2: has 3 cells; the header names 2. Separate cells by single tabs");
  EXPECT_THROW_WITH(open("a.jsonl", "[1]\n")->next(), Error, "line 1: is no JSON object");
  EXPECT_THROW_WITH(open("a.jsonl", "{\"a\": \n")->next(), Error, "line 1: is not JSON");
}

}  // namespace
}  // namespace hydramix
