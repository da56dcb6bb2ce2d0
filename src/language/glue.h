// SPDX-License-Identifier: Apache-2.0
// The eight GLUE tasks of the paper in miniature: sentences of the built-in language, labels that
// follow from their content, files in the official layouts. Labels are balanced, and neither the
// length of a sentence nor any single word reveals the label.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hydramix {

struct GlueSizes {
  int64_t train = 6000, dev = 400, test = 400;
};

struct GlueFile {
  std::string path;  // "MNLI/dev_matched.tsv"
  std::string contents;
  int64_t rows;
};

// MNLI, QNLI, QQP, RTE, SST-2, MRPC, CoLA, STS-B
const std::vector<std::string>& glue_tasks();

// The files of a task. No example occurs twice. Throws Error when the language has too few
// different examples.
std::vector<GlueFile> make_glue_task(const std::string& task, const GlueSizes& sizes, int64_t seed);

}  // namespace hydramix
