// SPDX-License-Identifier: Apache-2.0
// The contents of the benchmark's results.json: the scores of each task over its seeds, and their
// average.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "glue/sentence_task.h"

namespace hydramix {

// The entry of a task, from the results of its runs, {"seed", "metrics": {..., "score"}}:
//
//   {"heading", "mean", "deviation", "runs": [{"seed", metrics}]}
//
// The deviation is the sample standard deviation, 0 for one run.
nlohmann::ordered_json task_results(const SentenceTask& task,
                                    const std::vector<nlohmann::ordered_json>& runs);

// Adds to `results`, which holds the options of this call: its `tasks`, the tasks in the file
// `path` that were run with the same options, and the average over the tasks of the paper. `tell`
// gets a message if tasks of the file are replaced.
nlohmann::ordered_json merged_results(nlohmann::ordered_json results,
                                      const nlohmann::ordered_json& tasks,
                                      const std::filesystem::path& path,
                                      const std::function<void(const std::string&)>& tell);

}  // namespace hydramix
