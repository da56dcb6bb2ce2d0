// SPDX-License-Identifier: Apache-2.0
#include "reproduce/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/atomic_file.h"
#include "base/fnv.h"
#include "base/formatted.h"
#include "base/json_reader.h"
#include "base/list_folder.h"
#include "base/spelling.h"
#include "config/recipe_texts.h"
#include "glue/sentence_task.h"
#include "hydramix/error.h"
#include "reproduce/child_process.h"
#include "reproduce/image_rows.h"
#include "train/metrics.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string digest(const std::string& text) { return formatted("%016llx", fnv1a(text)); }

bool has_all_tasks(const DataFolders& data) {
  return data.glue_tasks.size() == glue_headings().size();
}

// The row's recipe with its folder.
RowRecipe placed_recipe(const ReproducePlan& plan, const std::string& row, int64_t seed) {
  auto recipe = recipe_of(row, plan.scale, plan.data.text, seed);
  recipe.options.out = (row_folder(plan, row, seed) / "pretrain").string();
  return recipe;
}

// Without the options that do not change the result, and with the contents of the data in place of
// its folders.
std::string pretrain_digest(const ReproducePlan& plan, const RowRecipe& recipe) {
  auto options = to_json(recipe.options);
  if (!plan.data.text_fingerprint.empty()) {
    for (const char* key : {"train", "validation", "vocab"}) options["data"].erase(key);
    options["data"]["fingerprint"] = plan.data.text_fingerprint;
  }
  for (const char* key : {"out", "device", "profile"}) options.erase(key);
  for (const char* key : {"micro_batch", "log_every", "checkpoint_every", "keep", "tensorboard"})
    options["train"].erase(key);
  return digest(options.dump());
}

// The words after "hydramix".
std::vector<std::string> glue_words(const ReproducePlan& plan, const std::string& row,
                                    int64_t seed) {
  const auto folder = row_folder(plan, row, seed);
  const bool paper = plan.scale == Scale::kAsPublished;
  std::vector<std::string> words{"glue",
                                 "--model",
                                 (folder / "pretrain").string(),
                                 "--data",
                                 plan.data.glue,
                                 "--out",
                                 (folder / "glue").string(),
                                 "--recipe",
                                 glue_recipe_of(row, plan.scale),
                                 "--seeds",
                                 paper ? "5" : "1",  // "the average of five runs"
                                 "--seed",
                                 std::to_string(seed)};
  if (const auto longest = glue_max_length(plan.scale); longest > 0)
    words.insert(words.end(), {"--max-length", std::to_string(longest)});
  if (!has_all_tasks(plan.data)) {
    words.insert(words.end(), {"--tasks", join(plan.data.glue_tasks, ",")});
    if (plan.data.glue_tasks.front() != "MNLI")
      words.insert(words.end(), {"--start", "pretrained"});
  }
  return words;
}

std::string glue_digest(const ReproducePlan& plan, const std::string& row, int64_t seed,
                        const std::string& pretraining) {
  auto words = glue_words(plan, row, seed);
  words.erase(words.begin() + 1, words.begin() + 7);  // folders
  return digest(pretraining + join(words, " ") + plan.data.glue_fingerprint +
                recipe_texts().at("glue/" + glue_recipe_of(row, plan.scale)));
}

Json pretrain_result(const RowRecipe& recipe, const ChildSettings& settings) {
  Json result{{"kind", "pretrain"},
              {"version", settings.version},
              {"seed", recipe.options.train.seed},
              {"parameters", parameter_count(recipe.options.model)},
              {"steps", recipe.options.train.steps}};
  double rates = 0, count = 0;
  Json curve = Json::array();
  read_metrics(
      fs::path(recipe.options.out) / "metrics.jsonl",
      [&](const std::string&, const nlohmann::json& line) {
        if (line.contains("evaluation/loss")) {
          result["loss"] = line["evaluation/loss"];
          result["accuracy"] = 100 * line.at("evaluation/accuracy").get<double>();
          curve.push_back({line["step"], line["evaluation/loss"]});
        }
        if (line.contains("tokens_per_second") && line["tokens_per_second"].is_number()) {
          rates += line["tokens_per_second"].get<double>();
          ++count;
        }
      },
      [](const std::string&) {});
  HYDRAMIX_CHECK(result.contains("loss"), recipe.options.out,
                 ": the run has ended without an evaluation.");
  result["tokens_per_second"] = count > 0 ? rates / count : 0;
  result["curve"] = curve;
  return result;
}

double mean_score(const Json& scores) {
  double sum = 0;
  for (const auto& [task, score] : scores.items()) sum += score.get<double>();
  return sum / static_cast<double>(scores.size());
}

// Scores in percent, by the headings of the tables; "glue" is the average over all eight tasks,
// "glue_some" that over fewer.
Json glue_result(const fs::path& folder, int64_t seed, const ChildSettings& settings) {
  const auto results = read_json(folder / "results.json", kResultFile);
  Json result{{"kind", "glue"}, {"version", settings.version}, {"seed", seed}};
  for (const auto& [name, task] : results.at("tasks").items())
    result["scores"][sentence_task(name).heading] = 100 * task.at("mean").get<double>();
  const bool all = result["scores"].size() == glue_headings().size();
  const double mean = mean_score(result["scores"]);
  result["scores"][all ? "glue" : "glue_some"] = mean;
  return result;
}

double glue_progress(const ReproducePlan& plan, const fs::path& folder) {
  double done = 0, all = 0;
  for (const auto& task : plan.data.glue_tasks) {
    const int64_t runs = plan.scale == Scale::kAsPublished ? 5 : 1;
    all += static_cast<double>(runs);
    if (!fs::is_directory(folder / task)) continue;
    for (const auto& run : list_folder(folder / task))
      if (fs::exists(run / "result.json")) ++done;
  }
  return all > 0 ? done / all : 1;
}

Stage pretrain_stage(const ReproducePlan& plan, const ChildSettings& settings,
                     const std::string& row, int64_t seed) {
  const auto folder = row_folder(plan, row, seed);
  const auto recipe = placed_recipe(plan, row, seed);
  const auto log = folder / "pretrain.log";
  Stage stage;
  stage.name = formatted("%s seed %lld: pretrain", row, seed);
  stage.result = folder / "pretrain.json";
  stage.recipe = pretrain_digest(plan, recipe);
  stage.start = [=](int64_t slot) {
    fs::create_directories(folder);
    write_file(folder / "recipe.json", to_json(recipe.options).dump(2) + "\n");
    return start_in_slot(settings, slot, {"pretrain", (folder / "recipe.json").string()}, log);
  };
  stage.progress = [=] {
    const auto done = last_step(fs::path(recipe.options.out) / "metrics.jsonl");
    return static_cast<double>(done) / static_cast<double>(recipe.options.train.steps);
  };
  stage.read = [=] { return pretrain_result(recipe, settings); };
  stage.log = log.string();
  return stage;
}

Stage glue_stage(const ReproducePlan& plan, const ChildSettings& settings, const std::string& row,
                 int64_t seed) {
  const auto folder = row_folder(plan, row, seed);
  const auto words = glue_words(plan, row, seed);
  const auto log = folder / "glue.log";
  Stage stage;
  stage.name = formatted("%s seed %lld: GLUE", row, seed);
  stage.result = folder / "glue.json";
  stage.recipe =
      glue_digest(plan, row, seed, pretrain_digest(plan, placed_recipe(plan, row, seed)));
  stage.start = [=](int64_t slot) { return start_in_slot(settings, slot, words, log); };
  stage.progress = [=] { return glue_progress(plan, folder / "glue"); };
  stage.read = [=] { return glue_result(folder / "glue", seed, settings); };
  stage.log = log.string();
  return stage;
}

// Seeds of a row and of its fine-tuning: the most that a table asks for.
struct RowSeeds {
  std::string row;
  int64_t pretrain = 0, glue = 0;
};

std::vector<RowSeeds> rows_of(const ReproducePlan& plan) {
  std::vector<RowSeeds> rows;
  for (const auto* table : plan.tables)
    for (const auto& row : table->rows) {
      if (row.name.empty()) continue;
      auto found = std::find_if(rows.begin(), rows.end(),
                                [&](const RowSeeds& known) { return known.row == row.name; });
      if (found == rows.end()) found = rows.insert(rows.end(), {row.name});
      const auto seeds = seeds_of(plan, *table);
      found->pretrain = std::max(found->pretrain, seeds);
      // At tiny scale the eight tasks take as long as pretraining, so that only seed 1 has them.
      if (table->has_column("glue") && !plan.data.glue_tasks.empty())
        found->glue =
            std::max(found->glue, plan.scale == Scale::kTiny && plan.seeds == 0 ? 1 : seeds);
    }
  return rows;
}

}  // namespace

int64_t seeds_of(const ReproducePlan& plan, const PaperTable& table) {
  if (plan.seeds > 0) return plan.seeds;
  if (plan.scale == Scale::kAsPublished || table.name == "mixers") return 1;
  return 3;
}

fs::path row_folder(const ReproducePlan& plan, const std::string& row, int64_t seed) {
  return plan.out / "runs" / row / ("seed-" + std::to_string(seed));
}

RowCommands row_commands(const ReproducePlan& plan, const std::string& row, int64_t seed) {
  if (is_image_row(row)) return {image_command_line(plan, row, seed), ""};
  RowCommands commands{pretrain_command_line(placed_recipe(plan, row, seed)), ""};
  for (const auto& seeds : rows_of(plan))
    if (seeds.row == row && seeds.glue > 0)
      commands.glue = "hydramix " + join(glue_words(plan, row, seed), " ");
  return commands;
}

std::unique_ptr<Job> start_in_slot(const ChildSettings& settings, int64_t slot,
                                   const std::vector<std::string>& words, const fs::path& log) {
  ChildCommand command{settings.program, words, {}, log};
  command.environment.emplace_back("OMP_NUM_THREADS", std::to_string(settings.threads));
  if (settings.gpus > 1)
    command.environment.emplace_back("CUDA_VISIBLE_DEVICES", std::to_string(slot % settings.gpus));
  return start_child(command);
}

// Seed by seed, so that an interrupted command has whole tables of fewer seeds. The fine-tuning of
// a row follows its pretraining directly.
std::vector<Stage> make_stages(const ReproducePlan& plan, const ChildSettings& settings) {
  const auto rows = rows_of(plan);
  int64_t most = 0;
  for (const auto& row : rows) most = std::max(most, row.pretrain);
  std::vector<Stage> stages;
  for (int64_t seed = 1; seed <= most; ++seed)
    for (const auto& row : rows) {
      if (seed > row.pretrain) continue;
      if (is_image_row(row.row)) {
        stages.push_back(image_stage(plan, settings, row.row, seed));
        continue;
      }
      stages.push_back(pretrain_stage(plan, settings, row.row, seed));
      if (seed > row.glue) continue;
      const auto before = stages.size() - 1;
      stages.push_back(glue_stage(plan, settings, row.row, seed));
      stages.back().after = before;
    }
  return stages;
}

}  // namespace hydramix
