// SPDX-License-Identifier: Apache-2.0
#include "glue/recipes.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/atomic_file.h"
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
    // None of the published fine-tuning clips (goombalab/hydra 55bef74 and HazyResearch/m2 7d359e8:
    // no `algorithms: gradient_clipping` in bert/yamls/finetune*).
    EXPECT_EQ(got.clip, kInfinity) << what;
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
  // A footnote of Table 4 has FNet's rate for CoLA.
  expect_recipe("fnet", 256,
                {{"MNLI", 5e-5, 5e-6, 3},
                 {"QNLI", 1e-5, 1e-6, 10},
                 {"QQP", 3e-5, 3e-6, 5},
                 {"RTE", 1e-5, 1e-6, 3},
                 {"SST-2", 3e-5, 3e-6, 3},
                 {"MRPC", 8e-5, 8e-6, 10},
                 {"CoLA", 1e-5, 5e-6, 10},
                 {"STS-B", 3e-5, 3e-6, 10}});
  for (const auto* recipe : {"m2", "hydra_24"})
    expect_recipe(recipe, 128,
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

// HazyResearch/m2 7d359e8, monarch-mixer-finetune-glue-768dim-80m-parameters.yaml: `optim_name:
// adamw` where the decay is 1e-2, DecoupledAdamW elsewhere; `pool_all` on QNLI.
TEST(GlueRecipes, M2sLargeDecaysAreThoseOfTorchsAdamW) {
  for (const auto& task : sentence_tasks()) {
    for (const auto* recipe : {"m2", "hydra_24"}) {
      const auto m2 = glue_recipe(recipe, task.name);
      EXPECT_EQ(m2.decay_rule, m2.decay == 1e-2 ? "times_rate" : "decoupled") << task.name;
      EXPECT_EQ(m2.pooling, task.name == "QNLI" ? "mean" : "auto") << task.name;
    }
    for (const auto* recipe : {"hydra", "train_bert", "fnet", "table2", "small", "tiny"})
      EXPECT_EQ(glue_recipe(recipe, task.name).decay_rule, "decoupled") << recipe << task.name;
  }
}

// HazyResearch/m2 7d359e8: the code of table4/m2's filters (models/recipes_test) also builds the
// optimizers of fine-tuning. Hydra has no filters.
TEST(GlueRecipes, M2sFiltersHaveTheirOwnRateAndDecay) {
  const std::vector<std::string> groups{"filter[.](forward_network|frequency) rate=1e-3 decay=0.1",
                                        "filter[.]position_embeddings rate=1e-5 decay=0"};
  for (const auto& task : sentence_tasks())
    for (const auto& recipe : glue_recipes())
      EXPECT_EQ(glue_recipe(recipe, task.name).groups,
                recipe == "m2" ? groups : std::vector<std::string>())
          << recipe << task.name;
}

// goombalab/hydra 55bef74, hydra/bert/src/glue/finetuning_jobs.py; max_seq_len of
// yamls/finetune/matrix_mixer/*.yaml.
TEST(GlueRecipes, Table2IsFineTunedOn128TokensByTheDefaultsOfThePublishedCode) {
  expect_recipe("table2", 128,
                {{"MNLI", 5e-5, 5e-6, 3},
                 {"QNLI", 1e-5, 1e-6, 10},
                 {"QQP", 3e-5, 3e-6, 5},
                 {"RTE", 1e-5, 1e-5, 3},
                 {"SST-2", 3e-5, 3e-6, 3},
                 {"MRPC", 8e-5, 8e-6, 10},
                 {"CoLA", 5e-5, 5e-6, 10},
                 {"STS-B", 3e-5, 3e-6, 10}});
}

// MosaicBERT's, Hydra's and M2's finetuning_jobs.py agree.
TEST(GlueRecipes, HaveTheBatchesOfThePublishedCode) {
  const std::map<std::string, int64_t> batches{{"MNLI", 48}, {"QNLI", 16},  {"QQP", 16},
                                               {"RTE", 16},  {"SST-2", 16}, {"MRPC", 32},
                                               {"CoLA", 32}, {"STS-B", 32}};
  for (const auto* recipe : {"hydra", "hydra_24", "m2", "train_bert", "fnet", "table2"})
    for (const auto& [task, batch] : batches) EXPECT_EQ(glue_recipe(recipe, task).batch, batch);
}

TEST(GlueRecipes, OfOurOwnClip) {
  for (const auto* recipe : {"small", "tiny"}) EXPECT_EQ(glue_recipe(recipe, "RTE").clip, 1);
}

TEST(GlueRecipes, AreFilesToo) {
  const auto folder = std::filesystem::path(HYDRAMIX_SOURCE_DIR) / "recipes/glue";
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path().stem().string());
  std::sort(files.begin(), files.end());
  EXPECT_EQ(glue_recipes(), files);
  for (const auto& name : glue_recipes())
    for (const auto& task : sentence_tasks())
      EXPECT_EQ(to_json(glue_recipe((folder / (name + ".yaml")).string(), task.name)),
                to_json(glue_recipe(name, task.name)))
          << name << task.name;

  const test::TemporaryFolder own;
  const auto path = (own / "own.yaml").string();
  write_file(path, "all: {rate: 1e-3, epochs: 2, batch: 8}\nrte: {max_length: 99, rate: 2e-3}\n");
  EXPECT_EQ(glue_recipe(path, "RTE").rate, 2e-3);
  EXPECT_EQ(glue_recipe(path, "RTE").batch, 8);
  EXPECT_THROW_WITH(glue_recipe(path, "MNLI"), UsageError, "states no max_length for MNLI");
  write_file(path, "rta: {rate: 1}");
  EXPECT_THROW_WITH(glue_recipe(path, "RTE"), UsageError, "rte");
  EXPECT_THROW_WITH(glue_recipe((own / "none.yaml").string(), "RTE"), UsageError, "none.yaml");
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
