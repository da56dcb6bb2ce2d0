// SPDX-License-Identifier: Apache-2.0
#include "tasks/own_data.h"

#include <algorithm>
#include <set>

#include "base/atomic_file.h"
#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using Strings = std::vector<std::string>;
using Targets = std::vector<double>;

struct OwnDataTest : ::testing::Test {
  test::TemporaryFolder folder;

  OwnDataOptions options(const std::string& name, const std::string& text,
                         const std::string& kind = "") const {
    write_file(folder / name, text);
    OwnDataOptions o;
    o.data = o.dev = folder / name;  // the same rows in both, unless a test says otherwise
    o.kind = kind;
    return o;
  }
  OwnData read(const std::string& name, const std::string& text, const std::string& kind = "") {
    return read_own_data(options(name, text, kind));
  }
};

TEST_F(OwnDataTest, ClassesAreFoundAndOrdered) {
  const auto data = read("a.tsv", "text\tlabel\nx\tpear\ny\tapple\nz\tpear\n");
  EXPECT_EQ(data.task.kind, LabelKind::kClasses);
  EXPECT_EQ(data.task.labels, (Strings{"apple", "pear"}));
  EXPECT_EQ(data.train[0].first, "x");
  EXPECT_EQ(data.train[0].targets, (Targets{1}));
  EXPECT_EQ(data.train[2].line, 4);
  EXPECT_EQ(read("a.tsv", "text\tlabel\nx\t10\ny\t9\nz\t-1\nz\t9\n").task.labels,
            (Strings{"-1", "9", "10"}));
}

TEST_F(OwnDataTest, FractionsAreScoresUnlessClassesAreAskedFor) {
  const std::string text = "text\tlabel\na\t1\nb\t2.5\nc\t1\n";
  const auto data = read("a.tsv", text);
  EXPECT_EQ(data.task.kind, LabelKind::kScore);
  EXPECT_EQ(data.train[1].targets, (Targets{2.5}));
  EXPECT_EQ(read("a.tsv", text, "classes").task.labels, (Strings{"1", "2.5"}));
  EXPECT_EQ(read("a.tsv", "text\tlabel\na\t1\nb\t2\n", "score").task.kind, LabelKind::kScore);
}

TEST_F(OwnDataTest, SeveralLabelsAreAListOrSeparated) {
  const auto json =
      read("a.jsonl",
           "{\"text\": \"x\", \"label\": [\"b\", \"a\"]}\n{\"text\": \"y\", \"label\": "
           "[]}\n",
           "labels");
  EXPECT_EQ(json.task.labels, (Strings{"a", "b"}));
  EXPECT_EQ(json.train[0].targets, (Targets{1, 1}));
  EXPECT_EQ(json.train[1].targets, (Targets{0, 0}));
  const auto table = read("a.tsv", "text\tlabel\nx\tb, a\ny\t[\"a\"]\nz\t\n", "labels");
  EXPECT_EQ(table.train[0].targets, (Targets{1, 1}));
  EXPECT_EQ(table.train[1].targets, (Targets{1, 0}));
  EXPECT_EQ(table.train[2].targets, (Targets{0, 0}));
  auto o = options("a.tsv", "text\tlabel\nx\tone, two||b\n", "labels");
  o.columns.separator = "||";
  EXPECT_EQ(read_own_data(o).task.labels, (Strings{"b", "one, two"}));
}

TEST_F(OwnDataTest, TagsComeFromConllOrJson) {
  const auto data =
      read("a.conll",
           "-DOCSTART- -X- O\n\nAnna NNP B-PER\nleft VBD O\n\n\nNew NNP B-LOC\nYork NNP "
           "I-LOC\n",
           "tokens");
  EXPECT_EQ(data.task.labels, (Strings{"O", "B-LOC", "I-LOC", "B-PER"}));
  ASSERT_EQ(data.train.size(), 2u);
  EXPECT_EQ(data.train[0].words, (Strings{"Anna", "left"}));
  EXPECT_EQ(data.train[0].line, 3);
  EXPECT_EQ(data.train[1].targets, (Targets{1, 2}));
  EXPECT_EQ(data.task.scored, (Strings{"f1"}));
  const auto json =
      read("a.jsonl", R"({"tokens": ["Anna", "left"], "tags": ["NOUN", "VERB"]})", "tokens");
  EXPECT_EQ(json.task.labels, (Strings{"NOUN", "VERB"}));
  EXPECT_EQ(json.task.metrics, (Strings{"accuracy"}));
  auto o = options("a.conll", "B-PER\tAnna\tx\nO\tleft\ty\n", "tokens");
  o.columns.text = "2", o.columns.label = "1";
  EXPECT_EQ(read_own_data(o).train[0].words, (Strings{"Anna", "left"}));
}

TEST_F(OwnDataTest, PairsHaveAScoreOnlyWhereAColumnIsNamed) {
  auto o = options("a.csv", "a,b,s\n\"x, y\",z,0.5\nu,v,1\n", "pairs");
  o.columns.text = "a", o.columns.pair = "b";
  auto data = read_own_data(o);
  EXPECT_EQ(data.train[0].first, "x, y");
  EXPECT_EQ(data.train[0].second, "z");
  EXPECT_TRUE(data.train[0].targets.empty());
  EXPECT_EQ(data.task.scored, (Strings{"mrr"}));
  o.columns.label = "s";
  EXPECT_EQ(read_own_data(o).train[0].targets, (Targets{0.5}));
  o.columns.pair = "";
  EXPECT_THROW_WITH(read_own_data(o), UsageError, "--text A --pair B");
}

TEST_F(OwnDataTest, AShareIsHeldOutByTheSeed) {
  std::string text = "text\tlabel\n";
  for (int i = 0; i < 50; ++i)
    text += "row " + std::to_string(i) + (i % 2 == 0 ? "\ta\n" : "\tb\n");
  auto o = options("a.tsv", text);
  o.dev.clear();
  o.dev_share = 0.2;
  o.seed = 3;
  const auto data = read_own_data(o);
  EXPECT_EQ(data.train.size(), 40u);
  EXPECT_EQ(data.dev.size(), 10u);
  EXPECT_NE(data.origin.find("10 of the 50 rows"), std::string::npos) << data.origin;
  EXPECT_NE(data.origin.find("seed 3"), std::string::npos) << data.origin;
  std::set<std::string> all;
  for (const auto* part : {&data.train, &data.dev})
    for (const auto& example : *part) all.insert(example.first);
  EXPECT_EQ(all.size(), 50u);
  const auto firsts = [](const std::vector<Example>& examples) {
    Strings texts;
    for (const auto& example : examples) texts.push_back(example.first);
    return texts;
  };
  EXPECT_EQ(firsts(read_own_data(o).dev), firsts(data.dev));
  o.seed = 4;
  EXPECT_NE(firsts(read_own_data(o).dev), firsts(data.dev));
  o.dev_share = 0;
  EXPECT_THROW_WITH(read_own_data(o), Error, "Give a --dev file");
}

TEST_F(OwnDataTest, ErrorsSayWhatWasFoundAndWhatIsExpected) {
  EXPECT_THROW_WITH(read("a.tsv", ""), Error, "a.tsv: is empty");
  EXPECT_THROW_WITH(read("a.tsv", "text\tlabel\n"), Error, "a.tsv: has no rows");
  EXPECT_THROW_WITH(read("a.jsonl", "\n"), Error, "a.jsonl: has no rows");
  EXPECT_THROW_WITH(read("a.tsv", "sentence\tlabel\nx\ta\n"), UsageError,
                    "has no column \"text\", only sentence, label. Name the right one with --text");
  EXPECT_THROW_WITH(read("a.tsv", "text\tlabels\nx\ta\n"), UsageError, "Did you mean 'labels'?");
  EXPECT_THROW_WITH(read("a.jsonl", "{\"text\": null, \"label\": 1}\n"), Error,
                    "line 1: \"text\" is null");
  EXPECT_THROW_WITH(read("a.tsv", "text\tlabel\nx\ta\ny\ta\n"), Error, "every label is \"a\"");
  EXPECT_THROW_WITH(read("a.tsv", "text\tlabel\nx\ta\ny\t\n"), Error, "line 3: label is empty");
  EXPECT_THROW_WITH(read("a.tsv", "text\tlabel\nx\ta\ny\tb\nz\tc\n"), Error,
                    "every row has a label of its own");
  EXPECT_THROW_WITH(read("a.tsv", "text\tlabel\nx\t1\ny\tone\n", "score"), Error,
                    "a.tsv: line 3: label is \"one\"; expected a number");
  EXPECT_THROW_WITH(read("a.tsv", "text\tlabel\nx\t1\ny\tnan\n", "score"), Error, "line 3");
  EXPECT_THROW_WITH(read("a.tsv", "text\tlabel\nx\t1\ny\t1\n", "score"), Error, "every label is 1");
  EXPECT_THROW_WITH(read("a.jsonl", "{\"text\": \"x\", \"label\": [\"a\"]}\n"), Error,
                    "Add --task labels");
  EXPECT_THROW_WITH(read("a.tsv", "text\tlabel\nx\t\n", "labels"), Error, "no row has a label");
  EXPECT_THROW_WITH(read("a.conll", "Anna\nleft\n", "tokens"), Error, "line 1: has 1 column");
  EXPECT_THROW_WITH(read("a.conll", "Anna B-PER\nleft\n", "tokens"), Error,
                    "line 2: has 1 column; the first word has 2");
  EXPECT_THROW_WITH(read("a.conll", "Anna O\n", "tokens"), Error, "every tag is \"O\"");
  EXPECT_THROW_WITH(read("a.conll", "Anna\tB-PER\n\tO\n", "tokens"), Error,
                    "line 2: column 1 is empty; expected a word");
  EXPECT_THROW_WITH(read("a.jsonl", R"({"tokens": [], "tags": []})", "tokens"), Error,
                    "every list of words is empty");
  EXPECT_THROW_WITH(read("a.jsonl", R"({"tokens": ["a"], "tags": []})", "tokens"), Error,
                    "has 1 word and 0 tags");
  EXPECT_THROW_WITH(read("a.tsv", "text\tlabel\nx\t1\n", "clases"), UsageError, "'classes'");
  auto o = options("a.tsv", "text\tlabel\nx\tred\ny\tblue\n");
  o.dev = folder / "dev.tsv";
  write_file(o.dev, "text\tlabel\nx\tred\nz\tgreen\n");
  EXPECT_THROW_WITH(read_own_data(o), Error,
                    "dev.tsv: line 3: \"green\" is no label of the training data, which has blue, "
                    "red");
}

TEST_F(OwnDataTest, AFileToPredictNeedsNoLabels) {
  const auto task = read("a.tsv", "text\tlabel\nx\ta\ny\tb\n").task;
  write_file(folder / "new.csv", "text\nsome\n");
  const auto file = read_own_file(folder / "new.csv", "auto", task, {}, /*needs_labels=*/false);
  EXPECT_EQ(file.rows.at(0).first, "some");
  EXPECT_TRUE(file.rows.at(0).targets.empty());
}

// A model that was saved without the columns of a file has no separator either.
TEST_F(OwnDataTest, WithoutASeparatorACellIsOneLabel) {
  OwnColumns columns;
  columns.separator = "";
  const auto task = own_task(LabelKind::kLabels, columns, {"a", "b,c"});
  write_file(folder / "new.tsv", "text\tlabel\nx\tb,c\n");
  const auto file = read_own_file(folder / "new.tsv", "auto", task, columns, /*needs_labels=*/true);
  EXPECT_EQ(file.rows.at(0).targets, (Targets{0, 1}));
}

}  // namespace
}  // namespace hydramix
