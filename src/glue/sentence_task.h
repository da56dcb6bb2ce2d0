// SPDX-License-Identifier: Apache-2.0
// A task of the GLUE benchmark: its files, their columns, and its metrics.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydramix {

struct SentenceTask {
  std::string name;                    // "MNLI": also the folder of its files
  std::string heading;                 // in the paper's tables: "SST2" for "SST-2"
  bool pairs;                          // of two sentences
  std::vector<std::string> labels;     // as the files write them, in the order of classes; empty:
                                       // a score
  std::vector<std::string> metrics;    // "accuracy", "f1", "matthews", "pearson", "spearman"
  std::vector<std::string> dev, test;  // files without .tsv: {"dev"}, or one for each kind of text

  // The names of the columns in a file's header.
  struct Columns {
    std::string first, second, label;        // second is empty for tasks of one sentence
    std::vector<std::string> headless = {};  // of files without a header, if the task has such
    // The official files have a few rows that a line break has split.
    bool some_torn = false;
  } columns;
  // The metrics that are averaged into the score of the paper's tables; empty: all of them.
  std::vector<std::string> scored = {};
  bool of_the_paper = true;  // the paper's tables have a column for it and average over it

  bool is_regression() const { return labels.empty(); }
  int64_t outputs() const { return is_regression() ? 1 : static_cast<int64_t>(labels.size()); }
};

inline constexpr double kLowestScore = 0, kHighestScore = 5;  // of STS-B

// MNLI, QNLI, QQP, RTE, SST-2, MRPC, CoLA, STS-B as in the paper's tables, then WNLI.
const std::vector<SentenceTask>& sentence_tasks();

// Finds a task by its name or heading, ignoring case and "-". The UsageError for an unknown name
// suggests the nearest one.
const SentenceTask& sentence_task(std::string_view name);

}  // namespace hydramix
