// SPDX-License-Identifier: Apache-2.0
#include "reproduce/recall_stages.h"

#include <cstdio>
#include <set>

#include "base/atomic_file.h"
#include "config/recipe_texts.h"
#include "data/recall.h"
#include "hydramix/error.h"
#include "reproduce/report.h"
#include "reproduce/reproduce.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;

TEST(RecallGridTest, EveryRunIsARecipeWithItsChanges) {
  for (const auto scale : {Scale::kTiny, Scale::kSmall, Scale::kAsPublished}) {
    std::set<std::string> names;
    for (const auto& cell : recall_cells(scale, 2)) {
      EXPECT_TRUE(names.insert(recall_cell_name(cell)).second) << recall_cell_name(cell);
      const auto recipe = recall_recipe(cell, scale);
      const auto& block = recipe.options.model.block;
      EXPECT_EQ(block.mixer, cell.mixer);
      EXPECT_EQ(recipe.options.recall.length, cell.length);
      EXPECT_EQ(recipe.options.train.seed, cell.seed);
      EXPECT_EQ(recipe.options.train.optimizer.rate, cell.rate);
      EXPECT_NO_THROW(RecallData(recipe.options.recall, recipe.options.model.vocab));
      if (cell.state > 0) {
        EXPECT_EQ(
            cell.mixer == "low_rank_dd" ? block.mixer_options.qk_dim : block.mixer_options.d_state,
            cell.state);
      } else {
        EXPECT_TRUE(cell.mixer == "attention" || cell.mixer == "attention_causal");
      }

      // The command line gives the same options.
      RecallTrainOptions typed;
      parse_yaml(typed, recipe_texts().at(recipe.base), recipe.base);
      for (const auto& change : recipe.changes) set(typed, change);
      EXPECT_EQ(to_json(typed), to_json(recipe.options));
    }
  }
}

TEST(RecallGridTest, ThePaperScaleIsTheWholeGrid) {
  std::set<int64_t> states, lengths;
  std::set<std::string> mixers;
  const auto cells = recall_cells(Scale::kAsPublished, 1);
  for (const auto& cell : cells) {
    mixers.insert(cell.mixer);
    lengths.insert(cell.length);
    if (cell.state > 0) states.insert(cell.state);
  }
  EXPECT_EQ(states, (std::set<int64_t>{8, 16, 32, 64, 128, 256}));
  EXPECT_EQ(lengths, (std::set<int64_t>{64, 128, 256, 512}));
  EXPECT_EQ(mixers, (std::set<std::string>{"semiseparable", "s6", "hydra", "low_rank_dd",
                                           "attention", "attention_causal"}));
  EXPECT_EQ(cells.size(), 4u * (4 * 6 + 2) * 4);  // lengths, mixers with states, rates
}

TEST(RecallGridTest, ACommandLineRunsTheCellAlone) {
  auto recipe = recall_recipe({"s6", 16, 64, 0.004, 2}, Scale::kTiny);
  recipe.options.out = "runs/x";
  const auto line = train_recall_command_line(recipe);
  EXPECT_TRUE(line.starts_with("hydramix train-recall recipes/recall/tiny.yaml --set ")) << line;
  for (const char* part :
       {" --set model.block.mixer=s6", " --set model.block.headdim=1",
        " --set model.block.mixer_options.d_state=16", " --set train.seed=2", " --out runs/x"})
    EXPECT_NE(line.find(part), std::string::npos) << part << " in " << line;
  EXPECT_THROW_WITH(recall_recipe({"hydra", 8, 96, 0.004, 1}, Scale::kTiny), Error,
                    "no runs of length 96 at tiny scale");
  EXPECT_THROW_WITH(recall_recipe({"fnet", 8, 64, 0.004, 1}, Scale::kTiny), Error,
                    "'fnet' is not one of its mixers");
}

Json result_of(double accuracy, double flops) {
  return {{"pairs", 8}, {"parameters", 1000}, {"flops_per_token", flops}, {"accuracy", accuracy}};
}

std::vector<std::pair<RecallCell, Json>> some_results() {
  return {{{"hydra", 8, 64, 0.001, 1}, result_of(0.5, 2e5)},
          {{"hydra", 8, 64, 0.01, 1}, result_of(0.75, 2e5)},   // the better rate
          {{"hydra", 8, 64, 0.001, 2}, result_of(0.25, 2e5)},  // another seed
          {{"hydra", 32, 64, 0.001, 1}, result_of(1, 3e5)},
          {{"attention", 0, 64, 0.001, 1}, result_of(1, 4e5)},
          {{"attention", 0, 128, 0.001, 1}, result_of(0.875, 5e5)}};
}

TEST(RecallResultsTest, TheBestRateOfEverySeedCounts) {
  const auto points = recall_points(some_results());
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[0].accuracies, (std::vector<double>{75, 25}));
  EXPECT_EQ(points[0].rates, (std::vector<double>{0.01, 0.001}));
  EXPECT_EQ(points[0].mean(), 50);
  EXPECT_EQ(points[1].state, 32);
  EXPECT_EQ(points[1].flops_per_token, 3e5);
  EXPECT_EQ(points[3].length, 128);
}

TEST(RecallResultsTest, TablesHaveARowForEachMixerAndAColumnForEachState) {
  const auto text = recall_markdown(recall_points(some_results()));
  const std::string tables =
      "\n### Recall, length 64, 8 pairs\n\n"
      "| Mixer | Reads | state 8 | state 32 | all tokens |\n"
      "| --- | --- | ---: | ---: | ---: |\n"
      "| Hydra | both ways | 50.0 [25.0, 75.0] (200k) | 100.0 (300k) |  |\n"
      "| Attention | both ways |  |  | 100.0 (400k) |\n\n"
      "### Recall, length 128, 8 pairs\n\n"
      "| Mixer | Reads | state 8 | state 32 | all tokens |\n"
      "| --- | --- | ---: | ---: | ---: |\n"
      "| Attention | both ways |  |  | 87.5 (500k) |\n";
  EXPECT_TRUE(text.ends_with(tables)) << text;
  // The sample deviation of 25 and 75 is 25 sqrt(2).
  const auto csv = recall_csv(recall_points(some_results()));
  EXPECT_TRUE(csv.starts_with("recall,hydra,\"Hydra\",length 64; state 8,accuracy,,50,35.3553,2\n"))
      << csv;
  const auto json = recall_json(recall_points(some_results()));
  EXPECT_EQ(json[0]["accuracy"], 50);
  EXPECT_TRUE(json[2]["state"].is_null());
}

TEST(RecallResultsTest, ChartsHaveAPanelForEachLengthAndALineForEachMixer) {
  const auto points = recall_points(some_results());
  for (const auto& svg : {recall_state_chart(points), recall_flops_chart(points)}) {
    for (const char* text : {"length 64, 8 pairs", "length 128, 8 pairs", "Hydra", "Attention"})
      EXPECT_NE(svg.find(text), std::string::npos) << text;
    EXPECT_EQ(svg.find("S6"), std::string::npos) << "a mixer without results has no line";
  }
  // Attention has the same accuracy at every state: a level line from the first to the last.
  const auto svg = recall_state_chart({points[0], points[1], points[2]});
  const auto first = svg.find("<polyline points=\"");  // Hydra's is drawn last
  double x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  ASSERT_EQ(
      std::sscanf(svg.c_str() + first, "<polyline points=\"%lf,%lf %lf,%lf\"", &x0, &y0, &x1, &y1),
      4)
      << svg;
  EXPECT_LT(x0, x1);
  EXPECT_EQ(y0, y1);
}

class RecallPlanTest : public ::testing::Test {
 protected:
  ReproducePlan plan(const std::string& scale) {
    ReproduceOptions options;
    options.tables = {"recall"};
    options.scale = scale;
    options.out = folder_.path().string();
    return plan_reproduction(options);
  }
  test::TemporaryFolder folder_;
};

TEST_F(RecallPlanTest, NeedsNoDataAndHasAStageForEveryCell) {
  for (const auto* scale : {"tiny", "small"}) {
    const auto own = plan(scale);
    EXPECT_TRUE(own.tables.empty());
    EXPECT_TRUE(make_stages(own, {}).empty());
    std::set<std::filesystem::path> results;
    std::set<std::string> recipes;
    for (const auto& stage : recall_stages(own, {})) {
      results.insert(stage.result);
      recipes.insert(stage.recipe);
      EXPECT_EQ(stage.progress(), 0);
    }
    EXPECT_EQ(results.size(), recall_cells(own.scale, 1).size());
    EXPECT_EQ(recipes.size(), results.size()) << "two cells have the same recipe";
  }
  ReproduceOptions options;
  options.out = folder_.path().string();
  EXPECT_TRUE(plan_reproduction(options).recall) << "by default all tables are made";
  options.tables = {"table3"};
  const auto without = plan_reproduction(options);
  EXPECT_TRUE(recall_stages(without, {}).empty());
  options.tables = {"recall", "recall"};
  EXPECT_THROW_WITH(plan_reproduction(options), UsageError, "recall is named twice");
  options.tables = {"recal"};
  EXPECT_THROW_WITH(plan_reproduction(options), UsageError, "recall");
}

TEST_F(RecallPlanTest, TheReportHasTheFinishedCells) {
  const auto own = plan("tiny");
  EXPECT_NE(report_html(make_report(own, "9.8.7")).find("No run is finished."), std::string::npos);
  const auto stages = recall_stages(own, {});
  for (const std::size_t i : {0u, 5u}) {
    std::filesystem::create_directories(stages[i].result.parent_path());
    write_file(stages[i].result, result_of(0.5, 2e5).dump());
  }
  ASSERT_EQ(finished_recall(own).size(), 2u);
  const auto report = make_report(own, "9.8.7");
  const auto page = report_html(report);
  for (const char* part : {"<h2 id=\"recall\">", "href=\"#recall\"", "50.0 (200k)",
                           "Associative recall over operations",
                           "<pre>hydramix train-recall recipes/recall/tiny.yaml"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page.find("Findings"), std::string::npos) << "of no table";
  EXPECT_NE(report_markdown(report).find("50.0 (200k)"), std::string::npos);
  EXPECT_NE(report_csv(report).find("\nrecall,hydra,"), std::string::npos);
  EXPECT_EQ(report_json(report)["recall"].size(), 2u);

  write_file(stages[0].result, "{\"pairs\": 8}");
  EXPECT_THROW_WITH(finished_recall(own), Error, "has no number 'parameters'");
}

}  // namespace
}  // namespace hydramix
