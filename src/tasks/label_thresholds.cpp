// SPDX-License-Identifier: Apache-2.0
#include "tasks/label_thresholds.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hydramix/error.h"

namespace hydramix {
namespace {

double f1_of(double hits, double said, double is) {
  return said + is > 0 ? 2 * hits / (said + is) : 0;
}

double best_threshold(const LabelTable& probabilities, const LabelTable& actual,
                      std::size_t label) {
  std::vector<std::size_t> order(probabilities.rows());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return probabilities(a, label) > probabilities(b, label);
  });
  double positives = 0;
  for (const auto row : order) positives += actual(row, label);
  if (positives == 0 || positives == static_cast<double>(order.size())) return 0.5;
  double best = -1, threshold = 0.5, hits = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    hits += actual(order[k], label);
    const double here = probabilities(order[k], label);
    const double next = k + 1 < order.size() ? probabilities(order[k + 1], label) : 0;
    if (here == next) continue;  // no threshold separates them
    const double f1 = f1_of(hits, static_cast<double>(k + 1), positives),
                 middle = (here + next) / 2;
    if (f1 > best || (f1 == best && std::abs(middle - 0.5) < std::abs(threshold - 0.5)))
      best = f1, threshold = middle;
  }
  return threshold;
}

}  // namespace

std::vector<double> best_thresholds(const LabelTable& probabilities, const LabelTable& actual) {
  std::vector<double> thresholds;
  for (std::size_t label = 0; label < probabilities.labels; ++label)
    thresholds.push_back(best_threshold(probabilities, actual, label));
  return thresholds;
}

LabelScores label_scores(const LabelTable& probabilities, const LabelTable& actual,
                         std::span<const double> thresholds) {
  HYDRAMIX_CHECK(probabilities.values.size() == actual.values.size() && actual.rows() > 0 &&
                     thresholds.size() == actual.labels,
                 "label scores: ", probabilities.values.size(), " probabilities, ",
                 actual.values.size(), " labels and ", thresholds.size(),
                 " thresholds; expected as many of each, and some.");
  struct Counts {
    double hits = 0, said = 0, is = 0;
  } all;
  LabelScores scores;
  std::vector<char> right(actual.rows(), 1);
  for (std::size_t label = 0; label < actual.labels; ++label) {
    Counts own;
    for (std::size_t row = 0; row < actual.rows(); ++row) {
      const bool said = probabilities(row, label) >= thresholds[label];
      const bool is = actual(row, label) > 0;
      own.hits += said && is ? 1 : 0;
      own.said += said ? 1 : 0;
      own.is += is ? 1 : 0;
      if (said != is) right[row] = 0;
    }
    scores.macro_f1 += f1_of(own.hits, own.said, own.is) / static_cast<double>(actual.labels);
    all.hits += own.hits, all.said += own.said, all.is += own.is;
  }
  scores.micro_f1 = f1_of(all.hits, all.said, all.is);
  scores.exact = static_cast<double>(std::count(right.begin(), right.end(), 1)) /
                 static_cast<double>(actual.rows());
  return scores;
}

}  // namespace hydramix
