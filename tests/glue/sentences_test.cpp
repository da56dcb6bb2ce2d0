// SPDX-License-Identifier: Apache-2.0
// Reading unmodified official files, and the errors for malformed ones.
#include "glue/sentences.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "hydramix/error.h"
#include "language/glue.h"
#include "support/expect.h"

namespace hydramix {
namespace {

class Sentences : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& contents) {
    const auto path = folder_ / "rows.tsv";
    std::ofstream(path, std::ios::binary) << contents;
    return path;
  }
  SentenceFile read(const std::string& task, const std::string& contents,
                    Labels labels = Labels::kNeeded) {
    return read_sentences(sentence_task(task), write(contents), labels);
  }

  const test::TemporaryFolder folder_;
};

const std::string kRteHeader = "index\tsentence1\tsentence2\tlabel\n";

TEST_F(Sentences, ColumnsAreFoundByTheirNames) {
  const auto file = read("RTE", kRteHeader + "4\tIt rains.\tIt is wet.\tentailment\n" +
                                    "9\tIt rains.\tIt is dry.\tnot_entailment\n");
  ASSERT_EQ(file.rows.size(), 2u);
  EXPECT_EQ(file.path, folder_ / "rows.tsv");
  EXPECT_EQ(file.rows[0].id, "4");
  EXPECT_EQ(file.rows[0].first, "It rains.");
  EXPECT_EQ(file.rows[0].second, "It is wet.");
  EXPECT_EQ(file.rows[0].label, 0);
  EXPECT_EQ(file.rows[0].line, 2);
  EXPECT_EQ(file.rows[1].id, "9");
  EXPECT_EQ(file.rows[1].label, 1);
  EXPECT_EQ(file.rows[1].line, 3);
  EXPECT_TRUE(file.torn.empty());
  const auto moved = read("RTE", "label\tsentence2\tother\tsentence1\nentailment\tb\tx\ta\n");
  EXPECT_EQ(moved.rows[0].first + moved.rows[0].second, "ab");
  EXPECT_EQ(moved.rows[0].id, "0");  // no such column: the row's number
}

TEST_F(Sentences, MarksLineEndsAndQuotesMakeNoDifference) {
  const std::string mark = "\xEF\xBB\xBF";
  const auto file =
      read("MRPC", mark + "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n" +
                       "1\t702\t703\t\"He said \"\"no\tHe said, \"no\".\r\n" + "0\t1\t2\t\"\t'");
  ASSERT_EQ(file.rows.size(), 2u);
  EXPECT_EQ(file.rows[0].label, 1);
  EXPECT_EQ(file.rows[0].first, "\"He said \"\"no");
  EXPECT_EQ(file.rows[0].second, "He said, \"no\".");
  EXPECT_EQ(file.rows[1].first, "\"");
  EXPECT_EQ(file.rows[1].second, "'");
  EXPECT_EQ(file.rows[1].line, 3);
  const auto sst = read("SST-2", "sentence\tlabel\nna\xC3\xAFve \xE2\x80\xA8 fun \t1\n");
  EXPECT_EQ(sst.rows.at(0).first, "na\xC3\xAFve \xE2\x80\xA8 fun ");  // spaces are kept
}

TEST_F(Sentences, MnliHasTwoLayouts) {
  const std::string begin =
      "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
      "sentence1_parse\tsentence2_parse\tsentence1\tsentence2";
  const std::string row = "0\t1\t1n\tfiction\tp\tp\tp\tp\tOne.\tTwo.";
  const auto train =
      read("MNLI", begin + "\tlabel1\tgold_label\n" + row + "\tneutral\tcontradiction\n");
  EXPECT_EQ(train.rows.at(0).label, 2);
  const auto dev =
      read("MNLI", begin + "\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n" + row +
                       "\tentailment\tentailment\tneutral\tneutral\tneutral\tneutral\n");
  EXPECT_EQ(dev.rows.at(0).label, 1);
  const auto test = read("MNLI", begin + "\n" + row + "\n", Labels::kNone);
  EXPECT_EQ(test.rows.at(0).first + test.rows.at(0).second, "One.Two.");
  EXPECT_THROW_WITH(
      read("MNLI", begin + "\tlabel1\tgold_label\n" + row + "\tneutral\t-\n"), Error,
      "line 2: gold_label is \"-\"; expected a label of MNLI: entailment, neutral, contradiction");
}

TEST_F(Sentences, ColaHasNoHeaderButInItsTestFile) {
  const auto train = read("CoLA", "gj04\t1\t\tThey drank.\ngj04\t0\t*\tThey dranked.");
  ASSERT_EQ(train.rows.size(), 2u);
  EXPECT_EQ(train.rows[0].first, "They drank.");
  EXPECT_EQ(train.rows[0].second, "");
  EXPECT_EQ(train.rows[0].label, 1);
  EXPECT_EQ(train.rows[0].line, 1);
  EXPECT_EQ(train.rows[1].label, 0);
  EXPECT_EQ(train.rows[1].id, "1");
  const auto test = read("CoLA", "index\tsentence\n0\tBill left.\n", Labels::kNone);
  EXPECT_EQ(test.rows.at(0).first, "Bill left.");
  EXPECT_EQ(test.rows.at(0).line, 2);
  EXPECT_THROW_WITH(read("CoLA", "index\tsentence\n0\tBill left.\n"), Error, "no column 'label'");
  EXPECT_THROW_WITH(read("CoLA", "gj04\t1\tThey drank.\n"), Error,
                    "line 1: has 3 columns; expected 4 columns (source, label, mark, sentence, "
                    "since line 1 is no "
                    "header with 'sentence')");
}

TEST_F(Sentences, LabelsAreReadOnlyWhenAskedFor) {
  const std::string with = kRteHeader + "0\ta\tb\tperhaps\n";
  EXPECT_TRUE(std::isnan(read("RTE", with, Labels::kNone).rows.at(0).label));
  EXPECT_THROW_WITH(read("RTE", with, Labels::kIfThere), Error, "label is \"perhaps\"");
  const std::string without = "index\tsentence1\tsentence2\n3\ta\tb\n";
  EXPECT_TRUE(std::isnan(read("RTE", without, Labels::kIfThere).rows.at(0).label));
  EXPECT_EQ(read("RTE", kRteHeader + "0\ta\tb\tnot_entailment\n", Labels::kIfThere).rows[0].label,
            1);
}

TEST_F(Sentences, MissingColumnIsNamedWithTheHeader) {
  EXPECT_THROW_WITH(read("RTE", "index\tsentence1\tlabel\n0\ta\tentailment\n"), Error,
                    "rows.tsv: line 1: has no column 'sentence2', which RTE needs; the header is "
                    "\"index, sentence1, label\"");
  EXPECT_THROW_WITH(read("QNLI", kRteHeader + "0\ta\tb\tentailment\n"), Error,
                    "no column 'question'");
  EXPECT_THROW_WITH(read("RTE", "index\tsentence1\tsentence2\n0\ta\tb\n"), Error,
                    "Is it a test file?");
}

TEST_F(Sentences, WrongNumberOfColumnsIsNamedWithTheLine) {
  const std::string good = kRteHeader + "0\ta\tb\tentailment\n";
  EXPECT_THROW_WITH(read("RTE", good + "1\ta\tentailment\n"), Error,
                    "rows.tsv: line 3: has 3 columns; expected 4 columns");
  EXPECT_THROW_WITH(read("RTE", good + "1\ta\tb\tc\tentailment\n"), Error,
                    "line 3: has 5 columns; expected 4 columns");
  EXPECT_THROW_WITH(read("RTE", good + "\n" + "1\ta\tb\tentailment\n"), Error,
                    "line 3: has 1 column; expected 4 columns");
}

// A line break within a question tore rows of the official QQP apart.
TEST_F(Sentences, FewTornRowsOfQqpAreLeftOutAndReported) {
  std::string text = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n";
  for (int i = 0; i < 1000; ++i) {
    if (i == 500) text += "\"\tIs it so?\t0\n";
    text += std::to_string(i) + "\t1\t2\tIs it?\tIs it not?\t" + (i % 2 == 0 ? "0" : "1") + "\n";
  }
  const auto file = read("QQP", text);
  EXPECT_EQ(file.rows.size(), 1000u);
  EXPECT_EQ(file.rows[500].line, 503);
  EXPECT_EQ(file.rows[500].id, "500");
  ASSERT_EQ(file.torn.size(), 1u);
  EXPECT_EQ(file.torn[0], 502);
  EXPECT_NE(left_out(file.path, file.torn)
                .find("left out 1 row that a line break tore apart, in line 502"),
            std::string::npos);
  EXPECT_THROW_WITH(read("QQP", text + "7\t1\t2\tIs\n"), Error, "line 502: has 3 columns");
  EXPECT_THROW_WITH(read("QQP", text + "7\t1\t2\tIs\tIt\tso\t1\n"), Error,
                    "line 1003: has 7 columns; expected 6 columns");
  // Every row of a file without labels needs an answer.
  std::string test = "id\tquestion1\tquestion2\n";
  for (int i = 0; i < 1000; ++i) test += std::to_string(i) + "\tIs it?\tIs it not?\n";
  for (const auto labels : {Labels::kNone, Labels::kIfThere})
    EXPECT_THROW_WITH(read("QQP", test + "1000\tIs\n", labels), Error,
                      "line 1002: has 2 columns; expected 3 columns");
}

TEST_F(Sentences, LabelOutsideTheSetIsNamedWithTheSet) {
  EXPECT_THROW_WITH(read("RTE", kRteHeader + "0\ta\tb\tneutral\n"), Error,
                    "rows.tsv: line 2: label is \"neutral\"; expected a label of RTE: entailment, "
                    "not_entailment");
  EXPECT_THROW_WITH(read("SST-2", "sentence\tlabel\na\t1\nb\t2\n"), Error,
                    "line 3: label is \"2\"; expected a label of SST-2: 0, 1");
  EXPECT_THROW_WITH(read("SST-2", "sentence\tlabel\na\t\n"), Error, "line 2: label is \"\"");
}

TEST_F(Sentences, ScoreMustBeANumberInItsRange) {
  const std::string header = "index\tsentence1\tsentence2\tscore\n";
  const auto good = read("STS-B", header + "0\ta\tb\t3.800\n1\ta\tb\t0\n2\ta\tb\t5.0\n");
  EXPECT_EQ(good.rows[0].label, 3.8);
  EXPECT_EQ(good.rows[1].label, 0);
  EXPECT_EQ(good.rows[2].label, 5);
  for (const std::string wrong :
       {"high", "", "3.8x", "3,8", "nan", "inf", "-inf", "-0.1", "5.01", "1e99", "1e999", " 1"})
    EXPECT_THROW_WITH(
        read("STS-B", header + "0\ta\tb\t1\n1\ta\tb\t" + wrong + "\n"), Error,
        "rows.tsv: line 3: score is \"" + wrong + "\"; expected a number from 0 to 5");
}

TEST_F(Sentences, FileWithoutRowsIsAnError) {
  EXPECT_THROW_WITH(read("RTE", ""), Error, "rows.tsv: is empty; expected rows of RTE");
  EXPECT_THROW_WITH(read("RTE", kRteHeader), Error, "rows.tsv: has no rows below its header");
  EXPECT_THROW_WITH(read_sentences(sentence_task("RTE"), folder_ / "none.tsv", Labels::kNeeded),
                    Error, "none.tsv: cannot be opened");
  EXPECT_THROW_WITH(read_sentences(sentence_task("RTE"), folder_.path(), Labels::kNeeded), Error,
                    "is a directory, expected a file");
}

TEST_F(Sentences, BytesThatAreNotUtf8AreNamedWithTheLine) {
  EXPECT_THROW_WITH(read("SST-2", "sentence\tlabel\nfine\t1\ncaf\xE9\t1\n"), Error,
                    "rows.tsv: line 3: the text is not UTF-8: byte 3 (0xE9)");
}

TEST_F(Sentences, FingerprintIsOfTheBytes) {
  const std::string text = "sentence\tlabel\nfine\t1\n";
  const std::string first = read("SST-2", text).fingerprint;
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(first, read("SST-2", text).fingerprint);
  EXPECT_NE(first, read("SST-2", "sentence\tlabel\nfine\t0\n").fingerprint);
  EXPECT_NE(first, read("SST-2", "sentence\tlabel\r\nfine\t1\n").fingerprint);
}

// The reader accepts the files that make-data writes.
TEST_F(Sentences, EveryGeneratedFileIsRead) {
  std::size_t read_files = 0;
  for (const auto& name : glue_tasks()) {
    const auto& task = sentence_task(name);
    const int64_t of_each = 4, classes = task.is_regression() ? 6 : task.outputs();
    const int64_t count = of_each * classes;
    std::vector<std::string> parts = {"train"};
    for (const auto* list : {&task.dev, &task.test})
      parts.insert(parts.end(), list->begin(), list->end());
    for (const auto& generated : make_glue_task(name, {count, count, count}, 7)) {
      const std::string part = std::filesystem::path(generated.path).stem().string();
      EXPECT_EQ(std::count(parts.begin(), parts.end(), part), 1) << generated.path;
      const bool is_test = part.starts_with("test");
      const auto file = read(name, generated.contents, is_test ? Labels::kNone : Labels::kNeeded);
      ASSERT_EQ(std::ssize(file.rows), count) << generated.path;
      std::map<double, int64_t> labels;
      for (const auto& row : file.rows) {
        EXPECT_FALSE(row.first.empty());
        EXPECT_EQ(row.second.empty(), !task.pairs);
        EXPECT_EQ(row.id, std::to_string(&row - file.rows.data())) << generated.path;
        EXPECT_EQ(std::isnan(row.label), is_test);
        if (!is_test) ++labels[row.label];
      }
      ASSERT_EQ(std::ssize(labels), is_test ? 0 : classes) << generated.path;
      for (const auto& [label, rows] : labels) {
        EXPECT_EQ(rows, of_each) << generated.path;  // generated labels are balanced
        EXPECT_LT(label, static_cast<double>(classes));
      }
      ++read_files;
    }
  }
  EXPECT_EQ(read_files, 7 * 3 + 5u);
}

}  // namespace
}  // namespace hydramix
