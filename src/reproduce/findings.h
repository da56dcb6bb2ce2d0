// SPDX-License-Identifier: Apache-2.0
// The paper's findings as questions to the trained models, each answered yes, no or not separated.
//
// The rule. Two rows are compared seed by seed: models of one seed see the same data in the same
// order. The differences over the seeds have a mean and a 95 % confidence interval by Student's t
// (mean +- t s / sqrt(n)). A finding is true (yes) if the interval lies on the side that the paper
// states, false (no) if it lies on the other, and not separated if it contains zero. With one seed
// there is no interval and nothing is separated. A finding of several comparisons is true if all of
// them are, and false if any of them is.
#pragma once

#include <string>
#include <vector>

#include "reproduce/results.h"

namespace hydramix {

enum class Answer { kYes, kNo, kNotSeparated, kNotMeasured };
std::string answer_text(Answer answer);  // "yes", "no", "not separated", "not measured"

// The mean of a difference, which is positive where the paper is right.
struct Comparison {
  std::string text;       // "Add - Quasi (Hydra), loss"
  Spread difference;      // over the seeds
  double half_width = 0;  // of the 95 % interval; infinite for one seed
  Answer answer = Answer::kNotMeasured;
};

struct Finding {
  std::string table;      // "table2"
  std::string statement;  // "Quasiseparable DD has the lowest loss"
  std::string paper;      // the paper's numbers: "1.84 against 1.87 to 2.46"
  std::vector<Comparison> parts;
  Answer answer = Answer::kNotMeasured;
};

// Whether the mean of the differences is positive.
Comparison compare(std::string text, const std::vector<double>& differences);
// Whether the mean of `margins` is positive, where a margin is limit - |difference|: nearness.
Answer all_of(const std::vector<Comparison>& parts);

// The findings for the tables of the plan.
std::vector<Finding> findings(const ReproducePlan& plan, const AllResults& results);

}  // namespace hydramix
