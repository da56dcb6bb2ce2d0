// SPDX-License-Identifier: Apache-2.0
// The stages of `hydramix reproduce`: for every row of the tables and every seed a run of
// pretraining, and where a table shows GLUE a run of fine-tuning after it. A row that stands in two
// tables is trained once.
//
//   OUT/runs/ROW/seed-N/recipe.json    the options of pretraining, complete
//                       pretrain/      its run (train/pretrain.h)
//                       pretrain.json  its result
//                       glue/          runs of fine-tuning (train/glue_benchmark.h)
//                       glue.json      their result
//                       pretrain.log   output of the commands
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reproduce/data_folders.h"
#include "reproduce/runner.h"
#include "reproduce/table.h"

namespace hydramix {

struct ReproducePlan {
  std::vector<const PaperTable*> tables;
  bool recall = false;  // also associative recall (recall_stages.h)
  Scale scale = Scale::kTiny;
  DataFolders data;
  int64_t seeds = 0;  // of every table; 0: seeds_of()
  std::filesystem::path out;
};

// The number of seeds, which are 1, 2, ..., of a table.
int64_t seeds_of(const ReproducePlan& plan, const PaperTable& table);

std::filesystem::path row_folder(const ReproducePlan& plan, const std::string& row, int64_t seed);

// Runs of a row, as a person would type them.
struct RowCommands {
  std::string train, glue;  // glue is empty where no table shows it
};
RowCommands row_commands(const ReproducePlan& plan, const std::string& row, int64_t seed);

// How child processes are started.
struct ChildSettings {
  std::filesystem::path program;
  std::string version;
  int64_t threads = 1;  // of each
  int64_t gpus = 0;     // slot i uses GPU i % gpus; 0: none, or as the environment says
};

// A child `hydramix WORDS...` with its share of the machine; `log` gets its output.
std::unique_ptr<Job> start_in_slot(const ChildSettings& settings, int64_t slot,
                                   const std::vector<std::string>& words,
                                   const std::filesystem::path& log);

std::vector<Stage> make_stages(const ReproducePlan& plan, const ChildSettings& settings);

}  // namespace hydramix
