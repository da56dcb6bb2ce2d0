// SPDX-License-Identifier: Apache-2.0
// Predictions as the GLUE site takes them: a file a test set, "index\tprediction", labels in the
// words of the task, scores with three decimals.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "glue/sentence_task.h"
#include "glue/sentences.h"

namespace hydramix {

// `part` is the test file's name without .tsv: "CoLA.tsv" of "test", "MNLI-mm.tsv" of
// "test_mismatched". UsageError for what is no test file of the task.
std::string submission_name(const SentenceTask& task, const std::string& part);

// `predicted`: a class number or a score for each row; scores are clipped to the task's range.
std::string submission_text(const SentenceTask& task, const std::vector<Sentence>& rows,
                            std::span<const double> predicted);

}  // namespace hydramix
