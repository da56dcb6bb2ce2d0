// SPDX-License-Identifier: Apache-2.0
#include "glue/submission.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

std::string prediction_text(const SentenceTask& task, double value, const std::string& id) {
  const double classes = static_cast<double>(task.labels.size());
  const bool fits = task.is_regression()
                        ? std::isfinite(value)
                        : value >= 0 && value < classes && value == std::floor(value);
  HYDRAMIX_CHECK(fits, "submission: the prediction for ", task.name, " ", id, " is ", value,
                 "; expected ", task.is_regression() ? "a finite score" : "the number of a class, ",
                 task.is_regression() ? "" : concat("0 to ", classes - 1),
                 ". Use a model that was fine-tuned on ", task.name, ".");
  if (!task.is_regression()) return task.labels[static_cast<std::size_t>(value)];
  // + 0.0: no "-0.000"
  return fmt::format("{:.3f}", std::clamp(value, kLowestScore, kHighestScore) + 0.0);
}

}  // namespace

std::string submission_name(const SentenceTask& task, const std::string& part) {
  HYDRAMIX_CHECK_USAGE(std::find(task.test.begin(), task.test.end(), part) != task.test.end(),
                       "submission: ", task.name, " has no test file '", part,
                       "'; expected one of ", join(task.test), ".", did_you_mean(part, task.test));
  std::string suffix;
  if (part.ends_with("_matched")) suffix = "-m";
  if (part.ends_with("_mismatched")) suffix = "-mm";
  return task.name + suffix + ".tsv";
}

std::string submission_line(const SentenceTask& task, const Sentence& row, double predicted) {
  return row.id + "\t" + prediction_text(task, predicted, row.id) + "\n";
}

std::string submission_text(const SentenceTask& task, const std::vector<Sentence>& rows,
                            std::span<const double> predicted) {
  HYDRAMIX_CHECK(rows.size() == predicted.size(), "submission: ", predicted.size(),
                 " predictions for ", rows.size(), " rows of ", task.name,
                 "; expected one per row. Predict on the whole file.");
  std::string text(kSubmissionHeader);
  for (std::size_t i = 0; i < rows.size(); ++i)
    text += submission_line(task, rows[i], predicted[i]);
  return text;
}

}  // namespace hydramix
