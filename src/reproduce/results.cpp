// SPDX-License-Identifier: Apache-2.0
#include "reproduce/results.h"

#include <algorithm>
#include <cmath>

#include "base/json_reader.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void add_training(RowResults& row, int64_t seed, const Json& result) {
  row.parameters = result.at("parameters");
  row.steps = result.at("steps");
  row.numbers["parameters"][seed] = static_cast<double>(row.parameters) / 1e6;
  for (const char* key : {"loss", "accuracy", "top1", "top1_ema", "top5", "top5_ema",
                          "tokens_per_second", "images_per_second"})
    if (result.contains(key)) row.numbers[key][seed] = result.at(key);
  row.curves[seed].clear();
  for (const auto& point : result.at("curve"))
    row.curves[seed].emplace_back(point.at(0).get<double>(), point.at(1).get<double>());
}

void add_version(RowResults& row, const Json& result) {
  const auto version = result.at("version").get<std::string>();
  if (std::find(row.versions.begin(), row.versions.end(), version) == row.versions.end())
    row.versions.push_back(version);
}

}  // namespace

std::vector<double> RowResults::of(const std::string& column, int64_t count) const {
  std::vector<double> values;
  if (const auto found = numbers.find(column); found != numbers.end())
    for (const auto& [seed, value] : found->second)
      if (seed <= count) values.push_back(value);
  return values;
}

AllResults read_results(const ReproducePlan& plan) {
  AllResults results;
  for (const auto* table : plan.tables)
    for (const auto& row : table->rows) {
      if (row.name.empty()) continue;
      auto& own = results[row.name];
      for (int64_t seed = 1; seed <= seeds_of(plan, *table); ++seed) {
        const auto folder = row_folder(plan, row.name, seed);
        for (const char* name : {"pretrain.json", "images.json"}) {
          if (!fs::exists(folder / name)) continue;
          const auto result = read_json(folder / name, kResultFile);
          add_training(own, seed, result);
          add_version(own, result);
        }
        if (!fs::exists(folder / "glue.json")) continue;
        const auto result = read_json(folder / "glue.json", kResultFile);
        for (const auto& [task, score] : result.at("scores").items())
          own.numbers[task][seed] = score.get<double>();
        add_version(own, result);
      }
      const auto mean = [&](const char* key) {
        return spread(own.of(key, seeds_of(plan, *table))).mean;
      };
      own.tokens_per_second = mean("tokens_per_second");
      own.images_per_second = mean("images_per_second");
    }
  return results;
}

Spread spread(const std::vector<double>& numbers) {
  Spread result;
  result.count = std::ssize(numbers);
  if (numbers.empty()) return result;
  const auto count = static_cast<double>(numbers.size());
  for (const double number : numbers) result.mean += number / count;
  if (numbers.size() < 2) return result;
  double squares = 0;
  for (const double number : numbers) squares += (number - result.mean) * (number - result.mean);
  result.deviation = std::sqrt(squares / (count - 1));
  return result;
}

}  // namespace hydramix
