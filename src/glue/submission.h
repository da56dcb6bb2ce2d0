// SPDX-License-Identifier: Apache-2.0
// Predictions in the format of the GLUE site: one file per test set with lines "index\tprediction";
// labels by name, scores with three decimals.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "glue/sentence_task.h"
#include "glue/sentences.h"

namespace hydramix {

// `part` is the test file's name without .tsv: "CoLA.tsv" of "test", "MNLI-mm.tsv" of
// "test_mismatched". Throws UsageError if `part` is not a test file of the task.
std::string submission_name(const SentenceTask& task, const std::string& part);

inline constexpr std::string_view kSubmissionHeader = "index\tprediction\n";

// The line of one row. `predicted`: a class number or a score, which is clipped to the task's
// range.
std::string submission_line(const SentenceTask& task, const Sentence& row, double predicted);

// The whole file.
std::string submission_text(const SentenceTask& task, const std::vector<Sentence>& rows,
                            std::span<const double> predicted);

}  // namespace hydramix
