// SPDX-License-Identifier: Apache-2.0
// A task on labelled text: the kind of its labels, their names and its metrics. The tasks of GLUE
// are instances (glue/sentence_task.h); others are found in a user's own files (tasks/own_data.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydramix {

enum class LabelKind {
  kClasses,  // one class of several
  kScore,    // a number
  kLabels,   // any number of labels, each of which applies or not
  kTokens,   // a tag for each word
  kPairs,    // two texts that should get similar vectors; optionally how similar
};
const std::vector<std::string>& label_kinds();  // "classes", "score", "labels", "tokens", "pairs"
std::string kind_name(LabelKind kind);
LabelKind label_kind(const std::string& name);  // UsageError if there is none

struct TextTask {
  std::string name;
  LabelKind kind = LabelKind::kClasses;
  bool pairs = false;                    // of two texts, which the model reads together
  std::vector<std::string> labels;       // in the order of outputs; empty: a score, or vectors
  std::vector<std::string> metrics;      // of tasks/metrics.h, shown in this order
  std::vector<std::string> scored = {};  // those averaged into "score"; empty: all
  bool shows_mean = false;               // of all metrics, beside the score

  bool is_regression() const { return kind == LabelKind::kScore; }
  // Outputs of the last layer; 0 for vectors.
  int64_t outputs() const {
    if (kind == LabelKind::kPairs) return 0;
    return is_regression() ? 1 : static_cast<int64_t>(labels.size());
  }
};

// An example of any kind, as text.
struct Example {
  std::string first, second;       // second is empty unless there are pairs
  std::vector<std::string> words;  // kTokens, in place of texts
  // kClasses: {class}; kScore: {score}; kLabels: 0 or 1 for each label; kTokens: a tag for each
  // word; kPairs: {score} or nothing.
  std::vector<double> targets;
  int64_t line = 0;  // in its file, from 1
};

}  // namespace hydramix
