// SPDX-License-Identifier: Apache-2.0
#include "glue/results.h"

#include <cmath>

#include "base/atomic_file.h"
#include "base/json_checksum.h"
#include "base/json_reader.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Mean and sample standard deviation over seeds; 0 for one seed.
std::pair<double, double> mean_and_deviation(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / n;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, values.size() > 1 ? std::sqrt(squares / (n - 1)) : 0.0};
}

// Keys that must agree between the results of several calls that are averaged.
const std::vector<std::string> kCommon{"fingerprint", "data",      "recipe",
                                       "seeds",       "start",     "pooling",
                                       "max_length",  "precision", "sts_score"};

// Whether the entry of a task has everything that the table shows.
bool is_sound(const Json& task) {
  try {
    static_cast<void>(task.at("mean").get<double>() + task.at("deviation").get<double>());
    const auto& runs = task.at("runs");
    for (const auto& run : runs) {
      if (!run.contains("parts")) continue;
      for (const auto& [part, metrics] : runs.at(0).at("parts").items())
        static_cast<void>(run.at("parts").at(part).at("score").get<double>());
    }
    return runs.is_array() && !runs.empty();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

// Results of other tasks in the existing file that were run with the same options. `tell` gets a
// message if they were not.
Json earlier_tasks(const fs::path& path, const Json& results,
                   const std::function<void(const std::string&)>& tell) {
  if (!fs::exists(path)) return Json::object();
  const auto before = try_parse_json(read_file(path, kResultFile));
  if (!before.is_object() || !before.contains("tasks") || !before["tasks"].is_object()) {
    if (tell)
      tell(path.string() + ": is damaged: it holds no tasks that can be read. It is replaced.");
    return Json::object();
  }
  try {
    check_json_checksum(before, path.string(),
                        "It was changed or damaged, and is replaced. Tasks of earlier calls are "
                        "left out; name them too to restore them from their runs.");
  } catch (const Error& error) {
    if (tell) tell(error.what());
    return Json::object();
  }
  for (const auto& key : kCommon) {
    const Json was = before.value(key, Json());
    if (was == results[key]) continue;
    if (tell && !before["tasks"].empty())
      tell(concat(path.string(),
                  ": held results of tasks run with other options, which are replaced: ", key,
                  " was ", was.dump(), ", is ", results[key].dump()));
    return Json::object();
  }
  Json sound = Json::object();
  for (const auto& [name, task] : before["tasks"].items())
    if (is_sound(task)) sound[name] = task;
  return sound;
}

}  // namespace

Json task_results(const SentenceTask& task, const std::vector<Json>& runs) {
  std::vector<double> values;
  Json each = Json::array();
  for (const auto& run : runs) {
    values.push_back(run.at("metrics").at("score").get<double>());
    Json line{{"seed", run.at("seed")}};
    line.update(run.at("metrics"));
    each.push_back(line);
  }
  const auto [mean, deviation] = mean_and_deviation(values);
  return {{"heading", task.heading}, {"mean", mean}, {"deviation", deviation}, {"runs", each}};
}

Json merged_results(Json results, const Json& tasks, const fs::path& path,
                    const std::function<void(const std::string&)>& tell) {
  Json merged = earlier_tasks(path, results, tell);
  merged.update(tasks);
  results["tasks"] = Json::object();
  double sum = 0;
  int64_t count = 0;
  for (const auto& task : sentence_tasks()) {
    if (!merged.contains(task.name)) continue;
    results["tasks"][task.name] = merged[task.name];
    if (!task.of_the_paper) continue;
    sum += merged[task.name].at("mean").get<double>();
    ++count;
  }
  results["average"] = count > 0 ? Json(sum / static_cast<double>(count)) : Json();
  Json skipped = Json::array();
  for (const auto& name : results["skipped"])
    if (!merged.contains(name.get<std::string>())) skipped.push_back(name);
  results["skipped"] = skipped;
  return results;
}

}  // namespace hydramix
