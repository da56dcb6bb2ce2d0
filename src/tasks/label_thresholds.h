// SPDX-License-Identifier: Apache-2.0
// Several labels for one text: thresholds of their probabilities, and scores.
#pragma once

#include <span>
#include <vector>

namespace hydramix {

// Labels of n examples, row by row: n x `labels` numbers.
struct LabelTable {
  std::span<const double> values;
  std::size_t labels;
  std::size_t rows() const { return values.size() / labels; }
  double operator()(std::size_t row, std::size_t label) const {
    return values[row * labels + label];
  }
};

// For each label the threshold with the best F1 on these examples: a label applies where its
// probability is at least the threshold. Thresholds lie halfway between two probabilities; of
// several best ones the nearest to 0.5 is taken. A label that no example has, or that all have,
// keeps 0.5.
std::vector<double> best_thresholds(const LabelTable& probabilities, const LabelTable& actual);

// F1 of all decisions together, its mean over labels, and the share of examples with every label
// right. 0 where undefined.
struct LabelScores {
  double micro_f1 = 0, macro_f1 = 0, exact = 0;
};
LabelScores label_scores(const LabelTable& probabilities, const LabelTable& actual,
                         std::span<const double> thresholds);

}  // namespace hydramix
