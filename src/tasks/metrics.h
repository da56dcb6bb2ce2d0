// SPDX-License-Identifier: Apache-2.0
// Metrics as scikit-learn and SciPy define them. Classes are numbers 0, 1, 2 ... All functions
// throw an Error unless the lengths are equal and positive and all numbers are finite. Undefined
// values (0 / 0, the correlation with a constant) are 0.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tasks/entities.h"
#include "tasks/text_task.h"

namespace hydramix {

double accuracy(std::span<const double> predicted, std::span<const double> actual);

// F1 of class 1: 2 TP / (2 TP + FP + FN).
double f1_score(std::span<const double> predicted, std::span<const double> actual);

// The mean of the F1 of all classes that occur in either; 0 for one that is never right.
double macro_f1_score(std::span<const double> predicted, std::span<const double> actual);

// The root of the mean squared difference.
double root_mean_square_error(std::span<const double> predicted, std::span<const double> actual);

// The correlation of both as indicator vectors, for any number of classes.
double matthews_correlation(std::span<const double> predicted, std::span<const double> actual);

double pearson_correlation(std::span<const double> a, std::span<const double> b);

// Pearson's correlation of the ranks; ties get the mean of their ranks.
double spearman_correlation(std::span<const double> a, std::span<const double> b);

// {"accuracy": .., "f1": .., "score": the mean of the task's metrics}. The paper's tables show
// "score" in percent. STS-B: {"pearson", "spearman", "mean" of both, "score": Spearman's}; GLUE's
// site averages the mean.
nlohmann::ordered_json scores(const TextTask& task, std::span<const double> predicted,
                              std::span<const double> actual);

// The metrics by name in the order of the task's list, then "score". `metrics` must have them all.
nlohmann::ordered_json with_score(const TextTask& task, const nlohmann::ordered_json& metrics);

// Tags of words, sentence by sentence.
class TagScores {
 public:
  // The tags of one sentence.
  void add(std::span<const std::string> predicted, std::span<const std::string> actual);
  // Precision, recall and F1 of entities and the accuracy of tags, as far as the task has them, and
  // "score".
  nlohmann::ordered_json summary(const TextTask& task) const;

 private:
  EntityCounts entities_;
  double right_ = 0, words_ = 0;
};

// Whether the metric is shown in percent: all but "loss" and "rmse".
bool is_share(std::string_view metric);

}  // namespace hydramix
