// SPDX-License-Identifier: Apache-2.0
#include "reproduce/recall_stages.h"

#include "base/atomic_file.h"
#include "base/fnv.h"
#include "base/formatted.h"
#include "base/json_reader.h"
#include "hydramix/error.h"
#include "reproduce/child_process.h"
#include "train/metrics.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

int64_t recall_seeds(const ReproducePlan& plan) { return plan.seeds > 0 ? plan.seeds : 1; }

fs::path cell_folder(const ReproducePlan& plan, const RecallCell& cell) {
  return plan.out / "runs" / "recall" / recall_cell_name(cell);
}

RecallRecipe placed_cell(const ReproducePlan& plan, const RecallCell& cell) {
  auto recipe = recall_recipe(cell, plan.scale);
  recipe.options.out = (cell_folder(plan, cell) / "run").string();
  return recipe;
}

// A digest of the options that determine the result.
std::string recall_digest(const RecallRecipe& recipe) {
  auto options = to_json(recipe.options);
  for (const char* key : {"out", "device", "profile"}) options.erase(key);
  for (const char* key : {"micro_batch", "log_every", "checkpoint_every", "keep", "tensorboard"})
    options["train"].erase(key);
  return formatted("%016llx", fnv1a(options.dump()));
}

double recall_progress(const RecallTrainOptions& options) {
  const auto done = last_step(fs::path(options.out) / "metrics.jsonl");
  return static_cast<double>(done) / static_cast<double>(options.train.steps);
}

Stage recall_stage(const ReproducePlan& plan, const ChildSettings& settings,
                   const RecallCell& cell) {
  const auto folder = cell_folder(plan, cell);
  const auto recipe = placed_cell(plan, cell);
  const auto log = folder / "recall.log";
  Stage stage;
  stage.name = "recall/" + recall_cell_name(cell);
  stage.result = folder / "recall.json";
  stage.recipe = recall_digest(recipe);
  stage.start = [=](int64_t slot) {
    fs::create_directories(folder);
    write_file(folder / "recipe.json", to_json(recipe.options).dump(2) + "\n");
    return start_in_slot(settings, slot, {"train-recall", (folder / "recipe.json").string()}, log);
  };
  stage.progress = [=] { return recall_progress(recipe.options); };
  stage.read = [=] {
    Json result{{"kind", "recall"}, {"version", settings.version}};
    result.update(recall_result(recipe.options.out));
    return result;
  };
  stage.log = log.string();
  return stage;
}

}  // namespace

std::vector<Stage> recall_stages(const ReproducePlan& plan, const ChildSettings& settings) {
  std::vector<Stage> stages;
  if (!plan.recall) return stages;
  for (const auto& cell : recall_cells(plan.scale, recall_seeds(plan)))
    stages.push_back(recall_stage(plan, settings, cell));
  return stages;
}

std::vector<RecallPoint> finished_recall(const ReproducePlan& plan) {
  std::vector<std::pair<RecallCell, Json>> results;
  if (!plan.recall) return {};
  for (const auto& cell : recall_cells(plan.scale, recall_seeds(plan))) {
    const auto path = cell_folder(plan, cell) / "recall.json";
    if (!fs::exists(path)) continue;
    auto result =
        read_json(path, kResultFile, "The file is damaged: remove it, and the run is repeated.");
    for (const char* key : {"pairs", "parameters", "flops_per_token", "accuracy"})
      HYDRAMIX_CHECK(result.is_object() && result.contains(key) && result[key].is_number(),
                     path.string(), ": has no number '", key,
                     "'; expected a result of recall. Remove it, and the run is repeated.");
    results.emplace_back(cell, std::move(result));
  }
  return recall_points(results);
}

std::vector<std::string> recall_commands(const ReproducePlan& plan) {
  std::vector<std::string> commands;
  for (const auto& cell : recall_cells(plan.scale, 1))
    commands.push_back(train_recall_command_line(placed_cell(plan, cell)));
  return commands;
}

}  // namespace hydramix
