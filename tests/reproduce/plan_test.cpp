// SPDX-License-Identifier: Apache-2.0
// What `hydramix reproduce` keeps of finished runs.
#include "reproduce/plan.h"

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "support/expect.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The result of Hydra's fine-tuning on these tasks, each with the score 0.5, the last with 0.7.
Json fine_tuned(const fs::path& out, const std::vector<std::string>& tasks) {
  ReproducePlan plan;
  plan.tables = {&paper_table("table3")};
  plan.out = out;
  plan.seeds = 1;
  plan.data.glue = "glue";
  plan.data.glue_tasks = tasks;
  Json results{{"tasks", Json::object()}, {"average", 0.1}};
  for (const auto& task : tasks) results["tasks"][task] = {{"mean", 0.5}};
  results["tasks"][tasks.back()]["mean"] = 0.7;
  const auto folder = row_folder(plan, "table3/hydra", 1) / "glue";
  fs::create_directories(folder);
  write_file(folder / "results.json", results.dump());
  for (const auto& stage : make_stages(plan, {}))
    if (stage.name == "table3/hydra seed 1: GLUE") return stage.read()["scores"];
  return {};
}

// An average over fewer than the eight tasks is never set beside the paper's.
TEST(ReproducePlan, AveragesOfFewerTasksHaveTheirOwnColumn) {
  const test::TemporaryFolder folder;
  const auto some = fine_tuned(folder / "some", {"CoLA", "SST-2"});
  EXPECT_FALSE(some.contains("glue"));
  EXPECT_NEAR(some.at("glue_some").get<double>(), 60, 1e-9);
  const auto all =
      fine_tuned(folder / "all", {"MNLI", "QNLI", "QQP", "RTE", "SST-2", "MRPC", "CoLA", "STS-B"});
  EXPECT_FALSE(all.contains("glue_some"));
  EXPECT_NEAR(all.at("glue").get<double>(), 52.5, 1e-9);
}

}  // namespace
}  // namespace hydramix
