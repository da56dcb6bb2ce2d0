// SPDX-License-Identifier: Apache-2.0
#include "language/glue.h"

#include <algorithm>
#include <set>

#include "base/spelling.h"
#include "hydramix/error.h"
#include "language/glue_examples.h"

namespace hydramix {
namespace {

using Line = std::vector<std::string>;

// An example with its label, and the number of its line.
struct Row {
  std::string number, first, second, label;
};

struct Part {
  std::string name;  // "train", "dev_matched"
  int64_t rows;
  bool train() const { return name == "train"; }
  bool test() const { return name.starts_with("test"); }
  bool shifted() const { return name.ends_with("_mismatched"); }
};

// Header (empty where the official file has none) and row format of each task.
struct Layout {
  Line header;
  Line (*line)(const Row& row, const Part& part);
};

Line mnli_line(const Row& r, const Part& part) {
  const std::string id = "9" + r.number;
  Line line = {r.number, id, id + "e", part.shifted() ? "diary" : "report"};
  // The official files have parse trees here; ours hold the unparsed sentence.
  for (const auto& text : {r.first, r.second}) line.push_back("( " + text + " )");
  for (const auto& text : {r.first, r.second}) line.push_back("(ROOT " + text + ")");
  line.insert(line.end(), {r.first, r.second});
  if (!part.test()) line.insert(line.end(), part.train() ? 2 : 6, r.label);
  return line;
}

Line single_header(const Part& part) {
  return part.test() ? Line{"index", "sentence"} : Line{"sentence", "label"};
}

Line pair_header(const std::string& first, const std::string& second, const Part& part) {
  Line header = {"index", first, second};
  if (!part.test()) header.push_back("label");
  return header;
}

Layout layout(const std::string& task, const Part& part) {
  const auto pair_line = [](const Row& r, const Part& p) {
    return p.test() ? Line{r.number, r.first, r.second}
                    : Line{r.number, r.first, r.second, r.label};
  };
  if (task == "CoLA")
    return {part.test() ? single_header(part) : Line{}, [](const Row& r, const Part& p) {
              return p.test() ? Line{r.number, r.first}
                              : Line{"hm26", r.label, r.label == "0" ? "*" : "", r.first};
            }};
  if (task == "SST-2")
    return {single_header(part), [](const Row& r, const Part& p) {
              return p.test() ? Line{r.number, r.first} : Line{r.first, r.label};
            }};
  if (task == "MRPC")
    return {
        {part.test() ? "index" : "\xef\xbb\xbfQuality", "#1 ID", "#2 ID", "#1 String", "#2 String"},
        [](const Row& r, const Part& p) {
          return Line{p.test() ? r.number : r.label, "1" + r.number, "2" + r.number, r.first,
                      r.second};
        }};
  if (task == "QQP")
    return {part.test() ? Line{"id", "question1", "question2"}
                        : Line{"id", "qid1", "qid2", "question1", "question2", "is_duplicate"},
            [](const Row& r, const Part& p) {
              return p.test() ? Line{r.number, r.first, r.second}
                              : Line{r.number, "1" + r.number, "2" + r.number,
                                     r.first,  r.second,       r.label};
            }};
  if (task == "STS-B") {
    Line header = {"index",   "genre",   "filename",  "year",     "old_index",
                   "source1", "source2", "sentence1", "sentence2"};
    if (!part.test()) header.push_back("score");
    return {header, [](const Row& r, const Part& p) {
              Line line = {r.number, "main-captions", "language", "2026",  r.number,
                           "none",   "none",          r.first,    r.second};
              if (!p.test()) line.push_back(r.label);
              return line;
            }};
  }
  if (task == "MNLI") {
    Line header = {"index",
                   "promptID",
                   "pairID",
                   "genre",
                   "sentence1_binary_parse",
                   "sentence2_binary_parse",
                   "sentence1_parse",
                   "sentence2_parse",
                   "sentence1",
                   "sentence2"};
    if (!part.test()) {
      for (int i = 1; i <= (part.train() ? 1 : 5); ++i) header.push_back(concat("label", i));
      header.push_back("gold_label");
    }
    return {header, mnli_line};
  }
  if (task == "QNLI") return {pair_header("question", "sentence", part), pair_line};
  return {pair_header("sentence1", "sentence2", part), pair_line};
}

void append_line(const Line& line, std::string& text) { text += join(line, "\t") + "\n"; }

std::vector<Part> parts_of(const std::string& task, const GlueSizes& sizes) {
  if (task != "MNLI") return {{"train", sizes.train}, {"dev", sizes.dev}, {"test", sizes.test}};
  return {{"train", sizes.train},
          {"dev_matched", sizes.dev},
          {"dev_mismatched", sizes.dev},
          {"test_matched", sizes.test},
          {"test_mismatched", sizes.test}};
}

}  // namespace

const std::vector<std::string>& glue_tasks() {
  static const auto names = [] {
    std::vector<std::string> list;
    for (const auto& task : glue_task_list()) list.push_back(task.name);
    return list;
  }();
  return names;
}

std::vector<GlueFile> make_glue_task(const std::string& task, const GlueSizes& sizes,
                                     int64_t seed) {
  const auto& tasks = glue_task_list();
  const auto found =
      std::find_if(tasks.begin(), tasks.end(), [&](const auto& t) { return t.name == task; });
  HYDRAMIX_CHECK_USAGE(found != tasks.end(), "glue: there is no task '", task,
                       "'; expected one of ", join(glue_tasks()), ".",
                       did_you_mean(task, glue_tasks()));
  std::vector<GlueFile> files;
  std::set<std::string> seen;
  uint64_t draws = 0;
  for (const auto& part : parts_of(task, sizes)) {
    const uint64_t stream = 1000 + static_cast<uint64_t>(found - tasks.begin());
    std::vector<std::size_t> labels;
    for (int64_t i = 0; i < part.rows; ++i)
      labels.push_back(static_cast<std::size_t>(i) % found->labels.size());
    Random(static_cast<uint64_t>(seed), stream, draws++).shuffle(labels);
    const Layout format = layout(task, part);
    GlueFile file{task + "/" + part.name + ".tsv", "", part.rows};
    if (!format.header.empty()) append_line(format.header, file.contents);
    for (int64_t i = 0; i < part.rows; ++i) {
      const std::size_t label = labels[static_cast<std::size_t>(i)];
      GlueExample example;
      int64_t tries = 0;
      do {
        HYDRAMIX_CHECK(++tries < 200, "glue: ", task, " has hardly more than ", seen.size(),
                       " different examples in this language; ", part.rows, " more were asked for ",
                       file.path, ". Ask for fewer rows.");
        Random random(static_cast<uint64_t>(seed), stream, draws++);
        example = found->make(label, part.shifted(), random);
      } while (!seen.insert(example.first + "\t" + example.second).second);
      append_line(
          format.line({std::to_string(i), example.first, example.second, found->labels[label]},
                      part),
          file.contents);
    }
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace hydramix
