// SPDX-License-Identifier: Apache-2.0
// What results.json of the benchmark says: the scores of each task over its seeds, and their
// average.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "glue/sentence_task.h"

namespace hydramix {

// Of results of its runs ({"seed", "metrics": {..., "score"}}): {"heading", "mean", "deviation" (of
// a sample; 0 for one), "runs": [{"seed", metrics}]}.
nlohmann::ordered_json task_results(const SentenceTask& task,
                                    const std::vector<nlohmann::ordered_json>& runs);

// `results`, which says how these `tasks` were had, with them, with those of the file `path` that
// were had in the same way, and with the average of those that are in the paper. `tell` is told
// what of the file is not kept.
nlohmann::ordered_json merged_results(nlohmann::ordered_json results,
                                      const nlohmann::ordered_json& tasks,
                                      const std::filesystem::path& path,
                                      const std::function<void(const std::string&)>& tell);

}  // namespace hydramix
