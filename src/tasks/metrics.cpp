// SPDX-License-Identifier: Apache-2.0
#include "tasks/metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include <nlohmann/json.hpp>

#include "hydramix/error.h"
#include "tasks/entities.h"

namespace hydramix {
namespace {

using Values = std::span<const double>;

void check(Values predicted, Values actual) {
  HYDRAMIX_CHECK(!predicted.empty() && predicted.size() == actual.size(),
                 "metrics: ", predicted.size(), " predictions and ", actual.size(),
                 " labels; expected as many of both, and some. Give one prediction an example.");
  for (const Values values : {predicted, actual})
    for (std::size_t i = 0; i < values.size(); ++i)
      HYDRAMIX_CHECK(std::isfinite(values[i]),
                     "metrics: ", values.data() == predicted.data() ? "prediction " : "label ", i,
                     " is ", values[i],
                     "; expected a finite number. Labels must be read, and a model "
                     "that answers so has diverged: train it with a lower learning rate.");
}

bool is_constant(Values values) {
  return std::all_of(values.begin(), values.end(), [&](double v) { return v == values.front(); });
}

double mean(Values values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Subtracts the mean twice, because the first mean of values far from zero has a rounding error;
// then divides by the norm.
std::vector<double> standardized(Values values) {
  std::vector<double> out(values.begin(), values.end());
  for (int pass = 0; pass < 2; ++pass) {
    const double middle = mean(out);
    for (double& v : out) v -= middle;
  }
  double largest = 0, squares = 0;  // scaled by the largest against underflow and overflow
  for (const double v : out) largest = std::max(largest, std::abs(v));
  for (double& v : out) v /= largest, squares += v * v;
  for (double& v : out) v /= std::sqrt(squares);
  return out;
}

std::vector<double> ranks(Values values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t i, std::size_t j) { return values[i] < values[j]; });
  std::vector<double> out(values.size());
  for (std::size_t begin = 0, end; begin < order.size(); begin = end) {
    for (end = begin; end < order.size() && values[order[end]] == values[order[begin]];) ++end;
    for (std::size_t k = begin; k < end; ++k)
      out[order[k]] = static_cast<double>(begin + end - 1) / 2;
  }
  return out;
}

double metric(const std::string& name, Values predicted, Values actual) {
  if (name == "accuracy") return accuracy(predicted, actual);
  if (name == "f1") return f1_score(predicted, actual);
  if (name == "macro_f1") return macro_f1_score(predicted, actual);
  if (name == "rmse") return root_mean_square_error(predicted, actual);
  if (name == "matthews") return matthews_correlation(predicted, actual);
  if (name == "pearson") return pearson_correlation(predicted, actual);
  if (name == "spearman") return spearman_correlation(predicted, actual);
  throw Error(
      "metrics: there is no '" + name +
      "'; expected accuracy, f1, macro_f1, matthews, pearson, spearman or rmse. Correct the task.");
}

}  // namespace

double accuracy(Values predicted, Values actual) {
  check(predicted, actual);
  double right = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) right += predicted[i] == actual[i] ? 1 : 0;
  return right / static_cast<double>(actual.size());
}

double f1_score(Values predicted, Values actual) {
  check(predicted, actual);
  double hits = 0, wrong = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const bool said = predicted[i] == 1, is = actual[i] == 1;
    hits += said && is ? 1 : 0;
    wrong += said != is ? 1 : 0;
  }
  return hits > 0 ? 2 * hits / (2 * hits + wrong) : 0;
}

double macro_f1_score(Values predicted, Values actual) {
  check(predicted, actual);
  std::map<double, std::pair<double, double>> classes;  // hits; predictions and labels together
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (predicted[i] == actual[i]) ++classes[actual[i]].first;
    ++classes[actual[i]].second;
    ++classes[predicted[i]].second;
  }
  double sum = 0;
  for (const auto& [number, counts] : classes) sum += 2 * counts.first / counts.second;
  return sum / static_cast<double>(classes.size());
}

double root_mean_square_error(Values predicted, Values actual) {
  check(predicted, actual);
  double sum = 0;
  for (std::size_t i = 0; i < actual.size(); ++i)
    sum += (predicted[i] - actual[i]) * (predicted[i] - actual[i]);
  return std::sqrt(sum / static_cast<double>(actual.size()));
}

double matthews_correlation(Values predicted, Values actual) {
  check(predicted, actual);
  struct Counts {
    double predicted = 0, actual = 0;
  };
  std::map<double, Counts> classes;
  double right = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ++classes[predicted[i]].predicted;
    ++classes[actual[i]].actual;
    right += predicted[i] == actual[i] ? 1 : 0;
  }
  // n^2 times the covariances: integers, exact below 2^53.
  const double n = static_cast<double>(actual.size());
  double both = right * n, of_predicted = n * n, of_actual = n * n;
  for (const auto& [number, count] : classes) {
    both -= count.predicted * count.actual;
    of_predicted -= count.predicted * count.predicted;
    of_actual -= count.actual * count.actual;
  }
  const double product = of_predicted * of_actual;
  return product > 0 ? both / std::sqrt(product) : 0;
}

double pearson_correlation(Values a, Values b) {
  check(a, b);
  if (is_constant(a) || is_constant(b)) return 0;
  const std::vector<double> x = standardized(a), y = standardized(b);
  return std::clamp(std::inner_product(x.begin(), x.end(), y.begin(), 0.0), -1.0, 1.0);
}

double spearman_correlation(Values a, Values b) {
  check(a, b);
  return pearson_correlation(ranks(a), ranks(b));
}

bool is_share(std::string_view metric) { return metric != "loss" && metric != "rmse"; }

nlohmann::ordered_json scores(const TextTask& task, Values predicted, Values actual) {
  nlohmann::ordered_json json;
  for (const auto& name : task.metrics) json[name] = metric(name, predicted, actual);
  return with_score(task, json);
}

void TagScores::add(std::span<const std::string> predicted, std::span<const std::string> actual) {
  HYDRAMIX_CHECK(predicted.size() == actual.size(), "metrics: ", predicted.size(), " tags for ",
                 actual.size(), " words; expected one for each.");
  entities_.add(predicted, actual);
  for (std::size_t w = 0; w < actual.size(); ++w) right_ += predicted[w] == actual[w] ? 1 : 0;
  words_ += static_cast<double>(actual.size());
}

nlohmann::ordered_json TagScores::summary(const TextTask& task) const {
  return with_score(task, {{"precision", entities_.precision()},
                           {"recall", entities_.recall()},
                           {"f1", entities_.f1()},
                           {"accuracy", words_ > 0 ? right_ / words_ : 0.0}});
}

nlohmann::ordered_json with_score(const TextTask& task, const nlohmann::ordered_json& metrics) {
  nlohmann::ordered_json json;
  for (const auto& name : task.metrics) json[name] = metrics.at(name);
  const auto mean_of = [&](const std::vector<std::string>& names) {
    double sum = 0;
    for (const auto& name : names) sum += json[name].get<double>();
    return sum / static_cast<double>(names.size());
  };
  if (task.shows_mean) json["mean"] = mean_of(task.metrics);
  json["score"] = mean_of(task.scored.empty() ? task.metrics : task.scored);
  return json;
}

}  // namespace hydramix
