// SPDX-License-Identifier: Apache-2.0
// The tasks of the GLUE benchmark: their files, columns and metrics.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/text_task.h"

namespace hydramix {

// Its name ("MNLI") is also the folder of its files. Labels are as the files write them.
struct SentenceTask : TextTask {
  std::string heading;                 // in the paper's tables: "SST2" for "SST-2"
  std::vector<std::string> dev, test;  // files without .tsv: {"dev"}, or one for each kind of text

  // The names of the columns in a file's header.
  struct Columns {
    std::string first, second, label;        // second is empty for tasks of one sentence
    std::vector<std::string> headless = {};  // of files without a header, if the task has such
    // The official files have a few rows that a line break has split.
    bool some_torn = false;
  } columns;
  bool of_the_paper = true;  // the paper's tables have a column for it and average over it
};

inline constexpr double kLowestScore = 0, kHighestScore = 5;  // of STS-B

// MNLI, QNLI, QQP, RTE, SST-2, MRPC, CoLA, STS-B as in the paper's tables, then WNLI.
const std::vector<SentenceTask>& sentence_tasks();

// Finds a task by its name or heading, ignoring case and "-". The UsageError for an unknown name
// suggests the nearest one.
const SentenceTask& sentence_task(std::string_view name);

}  // namespace hydramix
