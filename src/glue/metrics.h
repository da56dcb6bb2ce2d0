// SPDX-License-Identifier: Apache-2.0
// Metrics as scikit-learn and SciPy define them. Classes are numbers 0, 1, 2 ... All functions
// throw an Error unless the lengths are equal and positive and all numbers are finite. Undefined
// values (0 / 0, the correlation with a constant) are 0.
#pragma once

#include <span>

#include <nlohmann/json_fwd.hpp>

#include "glue/sentence_task.h"

namespace hydramix {

double accuracy(std::span<const double> predicted, std::span<const double> actual);

// F1 of class 1: 2 TP / (2 TP + FP + FN).
double f1_score(std::span<const double> predicted, std::span<const double> actual);

// The correlation of both as indicator vectors, for any number of classes.
double matthews_correlation(std::span<const double> predicted, std::span<const double> actual);

double pearson_correlation(std::span<const double> a, std::span<const double> b);

// Pearson's correlation of the ranks; ties get the mean of their ranks.
double spearman_correlation(std::span<const double> a, std::span<const double> b);

// {"accuracy": .., "f1": .., "score": the mean of the task's metrics}. The paper's tables show
// "score" in percent. STS-B: {"pearson", "spearman", "mean" of both, "score": Spearman's}; GLUE's
// site averages the mean.
nlohmann::ordered_json scores(const SentenceTask& task, std::span<const double> predicted,
                              std::span<const double> actual);

}  // namespace hydramix
