// SPDX-License-Identifier: Apache-2.0
// The GLUE tasks of the language: official layouts, and labels that independent rules recover from
// the text, but that neither its length nor any single word reveals.
#include "language/glue.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "hydramix/error.h"
#include "language/lexicon.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using Line = std::vector<std::string>;

Line split(const std::string& text, char separator) {
  Line parts(1);
  for (const char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

std::vector<Line> lines_of(const GlueFile& file) {
  std::vector<Line> lines;
  std::istringstream stream(file.contents);
  for (std::string line; std::getline(stream, line);) lines.push_back(split(line, '\t'));
  return lines;
}

Line words_of(const std::string& text) {
  std::string spaced;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    spaced += std::ispunct(byte) ? std::string{' ', c, ' '}
                                 : std::string(1, static_cast<char>(std::tolower(byte)));
  }
  Line words;
  std::istringstream stream(spaced);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool has(const Line& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The words of the text that belong to a class.
Line of_class(const std::string& text, const std::string& name) {
  Line found;
  for (const auto& word : words_of(text))
    if (has(word_class(name).words, word)) found.push_back(word);
  return found;
}

// Key and value of each clause; clauses without a value are skipped.
std::map<std::string, std::string> facts_of(const std::string& text) {
  std::map<std::string, std::string> facts;
  std::string rest = text;
  while (!rest.empty()) {
    const std::size_t end = rest.find(" and ");
    const std::string clause = rest.substr(0, end);
    rest = end == std::string::npos ? "" : rest.substr(end + 5);
    for (const auto& [key, value] : {std::pair{"object", "colour"}, {"name", "city"}})
      if (!of_class(clause, value).empty())
        facts[of_class(clause, key).at(0)] = of_class(clause, value)[0];
  }
  return facts;
}

std::string relation(const std::string& premise, const std::string& hypothesis) {
  const auto known = facts_of(premise);
  const auto claim = *facts_of(hypothesis).begin();
  if (!known.count(claim.first)) return "neutral";
  return known.at(claim.first) == claim.second ? "entailment" : "contradiction";
}

bool grammatical(const std::string& sentence) {
  const Line words = words_of(sentence);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const bool vowel = std::string("aeiou").find(words[i + 1][0]) != std::string::npos;
    if (words[i] == "a" && vowel) return false;
    if (words[i] == "an" && !vowel) return false;
  }
  if (words[1].back() == 's' && has(words, "is")) return false;
  if (words[0] == "the" && words[1].back() != 's' && has(words, "are")) return false;
  return has(words, "(") == has(words, ")") && has(words, "[") == has(words, "]") &&
         has(words, "{") == has(words, "}");
}

// The label derived from the text.
std::string judge(const std::string& task, const std::string& first, const std::string& second) {
  if (task == "CoLA") return grammatical(first) ? "1" : "0";
  if (task == "SST-2") {
    const auto& words = word_class("quality").words;
    const auto quality = of_class(first, "quality").at(0);
    const bool good = std::find(words.begin(), words.end(), quality) < words.begin() + 4;
    return good != has(words_of(first), "not") ? "1" : "0";
  }
  if (task == "MRPC") return facts_of(first) == facts_of(second) ? "1" : "0";
  if (task == "MNLI") return relation(first, second);
  if (task == "RTE")
    return relation(first, second) == "entailment" ? "entailment" : "not_entailment";
  if (task == "QNLI") {
    Line asked = of_class(first, "object");
    if (asked.empty()) asked = of_class(first, "name");
    return facts_of(second).count(asked.at(0)) ? "entailment" : "not_entailment";
  }
  if (task == "QQP") {
    for (const char* part : {"colour", "object", "name"})
      if (of_class(first, part) != of_class(second, part)) return "0";
    return "1";
  }
  int shared = 0;
  for (const char* part : {"name", "colour", "object", "find", "city"})
    shared += of_class(first, part) == of_class(second, part);
  return std::to_string(shared) + ".000";
}

// Columns of the first text, the second (-1: none) and the label, and whether there is a header.
struct Columns {
  int first, second, label;
  bool header = true;
};
const std::map<std::string, Columns> kColumns = {
    {"CoLA", {3, -1, 1, false}}, {"SST-2", {0, -1, 1}}, {"MRPC", {3, 4, 0}}, {"QQP", {3, 4, 5}},
    {"STS-B", {7, 8, 9}},        {"MNLI", {8, 9, -1}},  {"QNLI", {1, 2, 3}}, {"RTE", {1, 2, 3}},
};

struct Example {
  std::string first, second, label;
};

std::vector<Example> examples(const std::string& task, const GlueFile& file) {
  const Columns& c = kColumns.at(task);
  std::vector<Example> list;
  auto lines = lines_of(file);
  if (c.header) lines.erase(lines.begin());
  for (const auto& line : lines)
    list.push_back({line.at(static_cast<std::size_t>(c.first)),
                    c.second < 0 ? "" : line.at(static_cast<std::size_t>(c.second)),
                    c.label < 0 ? line.back() : line.at(static_cast<std::size_t>(c.label))});
  return list;
}

class EveryTask : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Glue, EveryTask, testing::ValuesIn(glue_tasks()), [](const auto& task) {
  std::string name = task.param;
  name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
  return name;
});

TEST_P(EveryTask, LabelsFollowFromTheTextAndAreBalanced) {
  for (const auto& file : make_glue_task(GetParam(), {1200, 300, 60}, 1)) {
    if (file.path.find("/test") != std::string::npos) continue;
    const auto list = examples(GetParam(), file);
    ASSERT_EQ(static_cast<int64_t>(list.size()), file.rows);
    std::map<std::string, std::size_t> count;
    for (const auto& [first, second, label] : list) {
      ASSERT_EQ(judge(GetParam(), first, second), label) << first << " | " << second;
      ++count[label];
    }
    for (const auto& [label, n] : count) EXPECT_EQ(n, list.size() / count.size()) << label;
    EXPECT_GE(count.size(), 2u);
  }
}

// 5 standard deviations around the share of a label, for each word and length in at least a tenth
// of the examples.
TEST_P(EveryTask, NeitherLengthNorAWordRevealsTheLabel) {
  const auto list = examples(GetParam(), make_glue_task(GetParam(), {6000, 6, 6}, 2)[0]);
  std::map<std::string, std::map<std::string, double>> counts;
  std::set<std::string> labels;
  for (const auto& [first, second, label] : list) {
    std::set<std::string> features;
    const Line a = words_of(first), b = words_of(second);
    for (const auto& word : a) features.insert("first " + word);
    for (const auto& word : b) features.insert("second " + word);
    features.insert("length " + std::to_string(a.size() + b.size()));
    features.insert("difference " +
                    std::to_string(static_cast<int>(a.size()) - static_cast<int>(b.size())));
    for (const auto& feature : features) ++counts[feature][label];
    labels.insert(label);
  }
  const double share = 1.0 / static_cast<double>(labels.size());
  int judged = 0;
  for (const auto& [feature, by_label] : counts) {
    double total = 0;
    for (const auto& [label, n] : by_label) total += n;
    if (total < 600) continue;
    ++judged;
    for (const auto& label : labels) {
      const auto found = by_label.find(label);
      const double n = found == by_label.end() ? 0 : found->second;
      EXPECT_NEAR(n / total, share, 5 * std::sqrt(share * (1 - share) / total))
          << feature << " and " << label;
    }
  }
  EXPECT_GT(judged, 3);
}

TEST_P(EveryTask, NoExampleOccursTwiceAndEqualSeedsGiveEqualFiles) {
  const auto files = make_glue_task(GetParam(), {900, 120, 120}, 7);
  const auto again = make_glue_task(GetParam(), {900, 120, 120}, 7);
  const auto other = make_glue_task(GetParam(), {900, 120, 120}, 8);
  for (std::size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(files[i].contents, again[i].contents);
    EXPECT_NE(files[i].contents, other[i].contents);
  }
  std::set<std::pair<std::string, std::string>> seen;
  for (const auto& file : files) {
    if (file.path.find("/test") != std::string::npos) continue;
    for (const auto& e : examples(GetParam(), file))
      EXPECT_TRUE(seen.emplace(e.first, e.second).second) << e.first << " | " << e.second;
  }
}

TEST_P(EveryTask, EveryLineHasTheColumnsOfTheOfficialFile) {
  const std::map<std::string, std::string> official = {
      {"SST-2/train.tsv", "sentence,label"},
      {"SST-2/dev.tsv", "sentence,label"},
      {"SST-2/test.tsv", "index,sentence"},
      {"CoLA/train.tsv", ""},
      {"CoLA/dev.tsv", ""},
      {"CoLA/test.tsv", "index,sentence"},
      {"MRPC/train.tsv", "\xef\xbb\xbfQuality,#1 ID,#2 ID,#1 String,#2 String"},
      {"MRPC/dev.tsv", "\xef\xbb\xbfQuality,#1 ID,#2 ID,#1 String,#2 String"},
      {"MRPC/test.tsv", "index,#1 ID,#2 ID,#1 String,#2 String"},
      {"QQP/train.tsv", "id,qid1,qid2,question1,question2,is_duplicate"},
      {"QQP/dev.tsv", "id,qid1,qid2,question1,question2,is_duplicate"},
      {"QQP/test.tsv", "id,question1,question2"},
      {"QNLI/train.tsv", "index,question,sentence,label"},
      {"QNLI/dev.tsv", "index,question,sentence,label"},
      {"QNLI/test.tsv", "index,question,sentence"},
      {"RTE/train.tsv", "index,sentence1,sentence2,label"},
      {"RTE/dev.tsv", "index,sentence1,sentence2,label"},
      {"RTE/test.tsv", "index,sentence1,sentence2"},
      {"STS-B/train.tsv",
       "index,genre,filename,year,old_index,source1,source2,sentence1,sentence2,score"},
      {"STS-B/dev.tsv",
       "index,genre,filename,year,old_index,source1,source2,sentence1,sentence2,score"},
      {"STS-B/test.tsv", "index,genre,filename,year,old_index,source1,source2,sentence1,sentence2"},
      {"MNLI/train.tsv",
       "index,promptID,pairID,genre,sentence1_binary_parse,sentence2_binary_parse,sentence1_parse,"
       "sentence2_parse,sentence1,sentence2,label1,gold_label"},
      {"MNLI/dev_matched.tsv",
       "index,promptID,pairID,genre,sentence1_binary_parse,sentence2_binary_parse,sentence1_parse,"
       "sentence2_parse,sentence1,sentence2,label1,label2,label3,label4,label5,gold_label"},
      {"MNLI/dev_mismatched.tsv",
       "index,promptID,pairID,genre,sentence1_binary_parse,sentence2_binary_parse,sentence1_parse,"
       "sentence2_parse,sentence1,sentence2,label1,label2,label3,label4,label5,gold_label"},
      {"MNLI/test_matched.tsv",
       "index,promptID,pairID,genre,sentence1_binary_parse,sentence2_binary_parse,sentence1_parse,"
       "sentence2_parse,sentence1,sentence2"},
      {"MNLI/test_mismatched.tsv",
       "index,promptID,pairID,genre,sentence1_binary_parse,sentence2_binary_parse,sentence1_parse,"
       "sentence2_parse,sentence1,sentence2"},
  };
  for (const auto& file : make_glue_task(GetParam(), {12, 6, 6}, 1)) {
    const std::string& header = official.at(file.path);
    const auto lines = lines_of(file);
    EXPECT_EQ(static_cast<int64_t>(lines.size()), file.rows + (header.empty() ? 0 : 1));
    const Line names = split(header, ',');
    if (!header.empty()) {
      EXPECT_EQ(lines[0], names) << file.path;
    }
    for (const auto& line : lines)
      EXPECT_EQ(line.size(), header.empty() ? 4 : names.size()) << file.path;
    EXPECT_EQ(file.contents.back(), '\n');
  }
}

TEST(Glue, MismatchedSetsWordTheirPremisesDifferently) {
  const auto files = make_glue_task("MNLI", {60, 30, 30}, 1);
  ASSERT_EQ(files.size(), 5u);
  const auto premises_turned_round = [](const GlueFile& file) {
    int64_t count = 0;
    for (const auto& e : examples("MNLI", file))
      count += e.first.starts_with("In ") || e.first.find("is the colour of") != std::string::npos;
    return count;
  };
  EXPECT_EQ(premises_turned_round(files[0]), 0);
  EXPECT_EQ(premises_turned_round(files[1]), 0);
  EXPECT_EQ(premises_turned_round(files[2]), 30);
}

TEST(Glue, QuotesOfMrpcAreText) {
  const auto file = make_glue_task("MRPC", {200, 10, 10}, 1)[0];
  const auto quotes = std::count(file.contents.begin(), file.contents.end(), '"');
  EXPECT_GT(quotes, 60);
  EXPECT_LT(quotes, 140);
  EXPECT_NE(file.contents.find("\t\""), std::string::npos);
}

TEST(Glue, UnknownTasksAndTooManyRowsAreRefused) {
  EXPECT_THROW_WITH(make_glue_task("SST2", {}, 1), UsageError, "Did you mean 'SST-2'?");
  EXPECT_THROW_WITH(make_glue_task("SST-2", {400000, 1, 1}, 1), Error, "Ask for fewer rows");
}

}  // namespace
}  // namespace hydramix
