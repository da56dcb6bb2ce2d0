// SPDX-License-Identifier: Apache-2.0
// How answers are scored, as scikit-learn and SciPy define it. Classes are numbers 0, 1, 2 ...
// Everywhere: equal lengths above zero and finite numbers, or an Error. What is undefined (0 / 0,
// the correlation with a constant) is 0: no better than a guess.
#pragma once

#include <span>

#include <nlohmann/json_fwd.hpp>

#include "glue/sentence_task.h"

namespace hydramix {

double accuracy(std::span<const double> predicted, std::span<const double> actual);

// Of class 1: 2 hits / (2 hits + false alarms + misses).
double f1_score(std::span<const double> predicted, std::span<const double> actual);

// The correlation of the two as indicator vectors; any number of classes.
double matthews_correlation(std::span<const double> predicted, std::span<const double> actual);

double pearson_correlation(std::span<const double> a, std::span<const double> b);

// Pearson's of the ranks; what ties shares the mean of its ranks.
double spearman_correlation(std::span<const double> a, std::span<const double> b);

// {"accuracy": .., "f1": .., "score": the mean of the task's metrics}. "score" is what the paper's
// tables give in percent. STS-B: {"pearson", "spearman", "mean" of both, "score": Spearman's}; the
// mean is what GLUE's site averages.
nlohmann::ordered_json scores(const SentenceTask& task, std::span<const double> predicted,
                              std::span<const double> actual);

}  // namespace hydramix
