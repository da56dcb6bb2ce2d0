// SPDX-License-Identifier: Apache-2.0
// Metrics of a classifier's answers for a file that has the columns of its training file, labels
// included.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hydramix/text_classifier.h"

namespace hydramix {

struct LabelledFile {
  std::string path;
  std::string format;  // auto, tsv, csv or jsonl
};

class OwnMetrics {
 public:
  // `file` is read again at the end. An empty path, or a file without labels: no metrics.
  OwnMetrics(const TextClassifier& classifier, const std::filesystem::path& folder,
             LabelledFile file);

  void add(const TextClassifier::Answer& answer);
  void print() const;  // to stderr

 private:
  std::filesystem::path folder_;
  LabelledFile file_;
  bool has_labels_ = false, several_;
  std::vector<double> values_;  // what metrics need of each answer
};

}  // namespace hydramix
