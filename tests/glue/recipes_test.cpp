// SPDX-License-Identifier: Apache-2.0
#include "glue/recipes.h"

#include <gtest/gtest.h>

#include "glue/sentence_task.h"
#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

// The paper's table of recipes, column by column.
struct Column {
  const char* task;
  double rate, decay;
  int64_t epochs;
};

void expect_recipe(const std::string& recipe, int64_t length, const std::vector<Column>& table) {
  ASSERT_EQ(table.size(), 8u);
  for (const auto& column : table) {
    const auto got = glue_recipe(recipe, column.task);
    const auto what = recipe + " " + column.task;
    EXPECT_EQ(got.rate, column.rate) << what;
    EXPECT_EQ(got.decay, column.decay) << what;
    EXPECT_EQ(got.epochs, column.epochs) << what;
    EXPECT_EQ(got.max_length, length) << what;
  }
}

TEST(GlueRecipes, AreThoseOfThePapersTable) {
  expect_recipe("train_bert", 256,
                {{"MNLI", 5e-5, 5e-6, 3},
                 {"QNLI", 1e-5, 1e-6, 10},
                 {"QQP", 3e-5, 3e-6, 5},
                 {"RTE", 1e-5, 1e-6, 3},
                 {"SST-2", 3e-5, 3e-6, 3},
                 {"MRPC", 8e-5, 8e-6, 10},
                 {"CoLA", 5e-5, 5e-6, 10},
                 {"STS-B", 3e-5, 3e-6, 10}});
  expect_recipe("m2", 128,
                {{"MNLI", 5e-5, 5e-6, 3},
                 {"QNLI", 5e-5, 1e-6, 10},
                 {"QQP", 3e-5, 1e-2, 10},
                 {"RTE", 1e-5, 1e-2, 6},
                 {"SST-2", 3e-5, 3e-6, 3},
                 {"MRPC", 5e-5, 1e-2, 10},
                 {"CoLA", 5e-5, 5e-6, 10},
                 {"STS-B", 7e-5, 1e-2, 10}});
  expect_recipe("hydra", 256,
                {{"MNLI", 1e-4, 5e-6, 2},
                 {"QNLI", 5e-5, 1e-6, 7},
                 {"QQP", 5e-5, 3e-6, 3},
                 {"RTE", 1e-5, 1e-6, 3},
                 {"SST-2", 5e-5, 3e-6, 2},
                 {"MRPC", 8e-5, 8e-6, 10},
                 {"CoLA", 1e-4, 5e-6, 10},
                 {"STS-B", 3e-5, 3e-6, 10}});
}

TEST(GlueRecipes, HaveEveryTask) {
  for (const auto& recipe : glue_recipes())
    for (const auto& task : sentence_tasks()) {
      const auto got = glue_recipe(recipe, task.name);
      EXPECT_TRUE(got.rate > 0 && got.epochs > 0 && got.batch > 0 && got.max_length >= 128)
          << recipe << " " << task.name;
    }
  EXPECT_EQ(glue_recipe("hydra", "WNLI").rate, glue_recipe("hydra", "RTE").rate);
  EXPECT_THROW_WITH(glue_recipe("hidra", "RTE"), UsageError, "hydra");
}

}  // namespace
}  // namespace hydramix
