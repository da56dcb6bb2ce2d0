// SPDX-License-Identifier: Apache-2.0
// The tables against the recipes, and the recipes of the rows at every scale.
#include "reproduce/table.h"

#include <cmath>
#include <set>

#include "config/recipe_texts.h"
#include "hydramix/error.h"
#include "models/size_check.h"
#include "reproduce/image_rows.h"
#include "reproduce/row_recipe.h"
#include "support/expect.h"

namespace hydramix {
namespace {

// Rows that learn text.
std::set<std::string> trained_rows() {
  std::set<std::string> rows;
  for (const auto& table : paper_tables())
    for (const auto& row : table.rows)
      if (!row.name.empty() && !table.of_images()) rows.insert(row.name);
  return rows;
}

double published_average(const TableRow& row) {
  double sum = 0;
  for (const auto& task : glue_headings()) sum += row.published.at(task) / 8;
  return sum;
}

// The paper's averages are those of the numbers that it prints, up to their rounding. Rows that it
// cites have the averages of their own papers, up to 0.6 beside that (FNet of 83 M: 76.7 for 77.2).
TEST(PaperTables, AveragesAreThoseOfTheirTasks) {
  int64_t rows = 0;
  for (const auto& table : paper_tables())
    for (const auto& row : table.rows) {
      if (!row.published.contains("MNLI")) continue;
      ++rows;
      const double limit = row.name.empty() ? 0.6 : 0.11;
      EXPECT_NEAR(published_average(row), row.published.at("glue"), limit)
          << table.name << " " << row.label << " " << row.mark;
    }
  EXPECT_EQ(rows, 14 + 6 + 4);
}

// models/recipes_test counts those of all recipes.
TEST(PaperTables, ParametersAreThoseOfTheRecipes) {
  for (const auto& name : {"table3", "table4"})
    for (const auto& row : paper_table(name).rows) {
      if (row.name.empty() || row.published.empty()) continue;
      if (row.name == "table4/m2") continue;  // M2's filters take seconds
      const auto recipe = recipe_of(row.name, Scale::kAsPublished, {}, 1);
      const double millions = static_cast<double>(parameter_count(recipe.options.model)) / 1e6;
      // The paper says 115 M of the 24-layer Hydra, which counts 115.9 M.
      const double expected = row.published.at("parameters");
      EXPECT_TRUE(std::round(millions) == expected || std::floor(millions) == expected)
          << row.name << " has " << millions << " M";
    }
}

TEST(PaperTables, EveryRecipeOfTheTablesIsARow) {
  const auto rows = trained_rows();
  for (const auto& [name, text] : recipe_texts())
    if (name.starts_with("table2/") || name.starts_with("table3/") || name.starts_with("table4/")) {
      EXPECT_TRUE(rows.contains(name)) << name;
    }
}

TEST(PaperTables, TheFigureEndsWhereTheTableDoes) {
  const auto& table = paper_table("table3");
  ASSERT_EQ(published_curves().size(), 4u);
  for (const auto& curve : published_curves())
    for (const auto& row : table.rows)
      if (row.name == curve.row) {
        EXPECT_EQ(curve.points.size(), 35u);
        EXPECT_EQ(curve.points.back().first, 70000);
        // The table rounds to two digits; the figure's Mult and Quasi end 0.01 beside it.
        EXPECT_NEAR(curve.points.back().second, row.published.at("loss"), 0.0101) << curve.row;
      }
}

TEST(PaperTables, UnknownNamesAreRefusedWithASuggestion) {
  EXPECT_EQ(paper_table("2").name, "table2");
  EXPECT_THROW_WITH(paper_table("tabel3"), UsageError, "Did you mean 'table3'?");
  EXPECT_THROW_WITH(paper_table("9"), UsageError, "table2, table3, table4, table5, mixers");
  EXPECT_THROW_WITH(scale_of("tinny"), UsageError, "Did you mean 'tiny'?");
}

// The printed command, its file and its assignments, gives the options that are trained.
TEST(RowRecipes, AreTheirBaseAndTheirChanges) {
  for (const auto& row : trained_rows())
    for (const auto scale : {Scale::kTiny, Scale::kSmall, Scale::kAsPublished}) {
      const auto recipe = recipe_of(row, scale, {}, 3);
      PretrainOptions options;
      parse_yaml(options, recipe_texts().at(recipe.base), recipe.base);
      options.out = recipe.options.out;
      for (const auto& change : recipe.changes) set(options, change);
      EXPECT_EQ(to_json(options).dump(), to_json(recipe.options).dump())
          << pretrain_command_line(recipe);
    }
}

TEST(RowRecipes, DifferOnlyInTheModelAtTinyAndSmallScale) {
  for (const auto scale : {Scale::kTiny, Scale::kSmall}) {
    auto expected = to_json(recipe_of("table3/hydra", scale, {}, 1).options);
    for (const auto& row : trained_rows()) {
      auto options = to_json(recipe_of(row, scale, {}, 1).options);
      for (const char* part : {"train", "data"})
        EXPECT_EQ(options[part].dump(), expected[part].dump()) << row;
      EXPECT_EQ(options["model"]["vocab"], expected["model"]["vocab"]);
    }
  }
}

// Fine-tuning opens the folder of the pretrained model, which compares its weights with its sizes,
// and reads texts that are no longer than the model is made for.
TEST(RowRecipes, GiveModelsThatFineTuningOpens) {
  for (const auto& row : trained_rows()) {
    const auto model = recipe_of(row, Scale::kTiny, {}, 1).options.model;
    EXPECT_NO_THROW(check_size(model, static_cast<double>(parameter_count(model)), row));
    EXPECT_LE(glue_max_length(Scale::kTiny), model.block.mixer_options.max_length) << row;
    if (model.positions > 0) {
      EXPECT_LE(glue_max_length(Scale::kTiny), model.positions) << row;
    }
  }
}

// recipes/small, with which docs/results.md was made.
TEST(RowRecipes, OfTable3AtSmallScaleAreTheFilesOfThatName) {
  for (const std::string name : {"hydra", "add", "mult", "concat", "mamba"}) {
    PretrainOptions file;
    parse_yaml(file, recipe_texts().at("small/" + name), name);
    const auto row = recipe_of("table3/" + name, Scale::kSmall, {}, 1).options;
    const auto size = [](const PretrainOptions& options) {
      const auto& block = options.model.block;
      return std::vector<int64_t>{parameter_count(options.model), options.model.layers,
                                  block.d_model, block.headdim, block.d_conv};
    };
    EXPECT_EQ(size(row), size(file)) << name;
  }
}

TEST(RowRecipes, OfTable5AreFilesOfEveryScale) {
  for (const auto& row : paper_table("table5").rows)
    for (const auto scale : {Scale::kTiny, Scale::kSmall, Scale::kAsPublished})
      EXPECT_TRUE(recipe_texts().contains(image_recipe_of(row.name, scale)))
          << image_recipe_of(row.name, scale);
  EXPECT_EQ(image_recipe_of("table5/vit-b", Scale::kSmall), "images/small-vit");
  EXPECT_EQ(image_recipe_of("table5/hydra-vit-b", Scale::kTiny), "images/tiny");
}

// The paper's table of recipes, and FNet's rate for CoLA in a footnote of Table 4.
TEST(RowRecipes, FineTuneAtThePapersScaleByTheRecipeOfTheModel) {
  for (const auto& [row, recipe] : std::vector<std::pair<std::string, std::string>>{
           {"table2/toeplitz_dd", "table2"},
           {"table3/add", "hydra"},
           {"table4/bert", "train_bert"},
           {"table4/mlp_mixer", "train_bert"},
           {"table4/mlp_mixer_nonlinear", "train_bert"},
           {"table4/fnet", "fnet"},
           {"table4/m2", "m2"},
           {"table4/hydra_24", "hydra_24"},
           {"table4/hydra", "hydra"}})
    EXPECT_EQ(glue_recipe_of(row, Scale::kAsPublished), recipe) << row;
}

TEST(RowRecipes, OfATableHaveSimilarSizesAtTinyScale) {
  for (const auto& name : {"table2", "table3", "table4"}) {
    double least = 1e18, most = 0;
    for (const auto& row : paper_table(name).rows) {
      if (row.name.empty()) continue;
      const auto recipe = recipe_of(row.name, Scale::kTiny, {}, 1);
      const auto count = static_cast<double>(parameter_count(recipe.options.model));
      least = std::min(least, count);
      most = std::max(most, count);
    }
    EXPECT_LT(most / least, 1.75) << name << ": " << least << " to " << most;
  }
}

}  // namespace
}  // namespace hydramix
