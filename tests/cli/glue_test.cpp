// SPDX-License-Identifier: Apache-2.0
// hydramix finetune, glue and predict on tasks of GLUE; curves of such runs.
#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "support/ports.h"
#include "support/tiny_run.h"

namespace hydramix {
namespace {

using test::contains;
using test::run_here;

// Files of four tasks and a model that has hardly learned anything, made once.
struct GlueCommand : ::testing::Test {
  static const test::TemporaryFolder& folder() {
    static const test::TemporaryFolder made;
    return made;
  }
  static std::string at(const std::string& name) { return (folder() / name).string(); }
  static void SetUpTestSuite() {
    ASSERT_EQ(run_here("make-data glue --train 24 --dev 12 --test 6 --out " + at("glue")).code, 0);
    test::make_language_run(folder() / "encoder");
  }
  static std::string finetune(const std::string& task, const std::string& more = "",
                              const std::string& out = "") {
    return "finetune --device cpu --recipe tiny --epochs 1 --model " + at("encoder") + " --data " +
           at("glue") + " --task " + task + " --out " + at(out.empty() ? task : out) + " " + more;
  }
};

TEST_F(GlueCommand, PrintsARowOfThePapersTable) {
  const std::string command =
      "glue --device cpu --recipe tiny --seeds 2 --tasks STS-B,MNLI --model " + at("encoder") +
      " --data " + at("glue") + " --out " + at("runs");
  const auto first = run_here(command);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_TRUE(contains(first.out, "MNLI    STS    Avg")) << first.out;
  EXPECT_TRUE(contains(first.out, "MNLI m/mm: ")) << first.out;
  EXPECT_TRUE(contains(first.out, "+- (2 seeds)")) << first.out;
  const auto results = nlohmann::json::parse(read_file(folder() / "runs/results.json"));
  EXPECT_EQ(results.at("tasks").size(), 2u);
  const auto again = run_here(command);
  EXPECT_EQ(again.out, first.out);
  EXPECT_FALSE(contains(again.err, "steps/s")) << again.err;
}

TEST_F(GlueCommand, PredictsWhatFinetuningMeasured) {
  // The length truncates sentences, which predict must do too; one sentence is empty.
  auto test = read_file(folder() / "glue/MRPC/test.tsv");
  write_file(folder() / "glue/MRPC/test.tsv", test + "6\t16\t26\tAnna left .\t\n");
  ASSERT_EQ(run_here(finetune("MRPC", "--max-length 12")).code, 0);
  const auto result = nlohmann::json::parse(read_file(folder() / "MRPC/result.json"));
  const auto predicted = run_here("predict " + at("MRPC") + " " + at("glue/MRPC/dev.tsv"));
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_EQ(std::count(predicted.out.begin(), predicted.out.end(), '\n'), 13);
  char accuracy[64];  // in percent, as finetune shows it
  std::snprintf(accuracy, sizeof accuracy, "accuracy     %8.2f %%",
                100 * result.at("metrics").at("accuracy").get<double>());
  EXPECT_TRUE(contains(predicted.err, accuracy)) << predicted.err << accuracy;
  // The answers for the test file are those that fine-tuning wrote.
  ASSERT_EQ(
      run_here("predict " + at("MRPC") + " " + at("glue/MRPC/test.tsv") + " --out " + at("p.tsv"))
          .code,
      0);
  EXPECT_EQ(read_file(folder() / "p.tsv"), read_file(folder() / "MRPC/predictions/MRPC.tsv"));
  // Rows are read as they are needed: those before a torn one get their answers.
  test = test.substr(0, test.find('\n') + 1);
  for (int i = 0; i < 300; ++i) test += std::to_string(i) + "\t1\t2\tAnna left .\tShe left .\n";
  write_file(folder() / "torn.tsv", test + "300\t1\n");
  const auto torn = run_here("predict " + at("MRPC") + " " + at("torn.tsv"));
  EXPECT_EQ(torn.code, 1);
  EXPECT_TRUE(contains(torn.err, at("torn.tsv") + ": line 302: ")) << torn.err;
  EXPECT_EQ(std::count(torn.out.begin(), torn.out.end(), '\n'), 1 + 256);
}

TEST_F(GlueCommand, TwoRanksFindWhatOneFinds) {
  ASSERT_EQ(run_here(finetune("QNLI")).code, 0);
  const auto environment = [port = test::free_port()](int rank) {
    return "RANK=" + std::to_string(rank) + " LOCAL_RANK=" + std::to_string(rank) +
           " WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" +
           std::to_string(port);
  };
  const auto both = finetune("QNLI", "--timeout 60", "ranks");
  auto second = std::async(std::launch::async, [&] { return test::run(both, environment(1)); });
  const auto first = test::run(both, environment(0));
  const auto other = second.get();
  if (contains(first.err, "need Gloo, whose headers were missing"))
    GTEST_SKIP() << "built without Gloo's headers: no ranks on the CPU";
  ASSERT_EQ(first.code, 0) << first.err;
  ASSERT_EQ(other.code, 0) << other.err;
  const auto one = nlohmann::json::parse(read_file(folder() / "QNLI/result.json"));
  const auto two = nlohmann::json::parse(read_file(folder() / "ranks/result.json"));
  EXPECT_NEAR(two.at("metrics").at("loss").get<double>(),
              one.at("metrics").at("loss").get<double>(), 1e-4);
  EXPECT_EQ(two.at("metrics").at("accuracy"), one.at("metrics").at("accuracy"));
  EXPECT_EQ(read_file(folder() / "ranks/predictions/QNLI.tsv"),
            read_file(folder() / "QNLI/predictions/QNLI.tsv"));
}

TEST_F(GlueCommand, ARecipeIsANameOrAFile) {
  write_file(folder() / "own.yaml", "all: {rate: 1e-3, epochs: 1, batch: 8, max_length: 24}\n");
  const auto run_of = [&](const std::string& recipe, const std::string& out) {
    return run_here("finetune --device cpu --task SST-2 --epochs 1 --max-length 24 --model " +
                    at("encoder") + " --data " + at("glue") + " --recipe " + recipe + " --out " +
                    at(out));
  };
  ASSERT_EQ(run_of(at("own.yaml"), "own").code, 0);
  const auto own = nlohmann::json::parse(read_file(folder() / "own/config.json"));
  EXPECT_EQ(own.at("batch"), 8);
  EXPECT_EQ(own.at("clip"), "inf");
  ASSERT_EQ(run_of("tiny", "named").code, 0);
  EXPECT_EQ(nlohmann::json::parse(read_file(folder() / "named/config.json")).at("clip"), 1.0);
  const auto unknown = run_of("hidra", "unknown");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(contains(unknown.err, "hydra") && contains(unknown.err, ".yaml")) << unknown.err;
}

TEST_F(GlueCommand, RunsAreDrawn) {
  ASSERT_EQ(run_here(finetune("RTE", "--seed 5")).code, 0);
  const auto drawn =
      run_here("curves " + at("RTE") + "/ " + at("encoder") + " --out " + at("c.svg"));
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  const auto svg = read_file(folder() / "c.svg");
  EXPECT_TRUE(contains(svg, ">RTE<") && contains(svg, ">encoder<")) << svg;
  const auto metric = run_here("curves " + at("RTE") + " --metric evaluation/f2");
  EXPECT_EQ(metric.code, 1);
  EXPECT_TRUE(contains(metric.err, "evaluation/f2")) << metric.err;
  EXPECT_EQ(run_here("curves " + at("glue")).code, 1);

  // Two seeds are one curve with a range around it.
  const auto write_run = [&](const std::string& name, const std::string& metrics) {
    std::filesystem::create_directories(folder() / name);
    write_file(folder() / name / "metrics.jsonl", metrics);
  };
  write_run("add-1", "{\"step\": 1, \"loss\": 2}\n{\"step\": 2, \"loss\": 1}\n");
  write_run("add-2", "{\"step\": 1, \"loss\": 4}\n{\"step\": 2, \"loss\": 2}\n");
  const std::string two = "curves " + at("add-1") + " " + at("add-2") + " --metric loss";
  const auto seeds = run_here(two + " --seeds --log --out " + at("s.svg"));
  ASSERT_EQ(seeds.code, 0) << seeds.err;
  const auto range = read_file(folder() / "s.svg");
  EXPECT_TRUE(contains(range, ">add, 2 seeds<") && contains(range, "<polygon ")) << range;
  write_run("add-3", "{\"step\": 7, \"loss\": 4}\n");
  const auto apart = run_here(two + " --seeds " + at("add-3"));
  EXPECT_EQ(apart.code, 1);
  EXPECT_TRUE(contains(apart.err, "no step in common")) << apart.err;
  EXPECT_EQ(run_here("curves " + at("RTE") + " " + at("RTE") + "/").code, 2);
}

TEST_F(GlueCommand, RefusesWhatDoesNotFit) {
  ASSERT_EQ(run_here(finetune("CoLA")).code, 0);
  const auto head =
      run_here("predict " + at("CoLA") + " --task MNLI " + at("glue/MNLI/dev_matched.tsv"));
  EXPECT_EQ(head.code, 2);
  EXPECT_TRUE(contains(head.err, "entailment, neutral, contradiction")) << head.err;
  const auto encoder = run_here("predict " + at("encoder") + " " + at("glue/CoLA/dev.tsv"));
  EXPECT_EQ(encoder.code, 1);
  EXPECT_TRUE(contains(encoder.err, "hydramix finetune")) << encoder.err;
  const auto pairs = run_here("predict " + at("CoLA") + " --task MRPC " + at("glue/MRPC/dev.tsv"));
  EXPECT_EQ(pairs.code, 2);
  EXPECT_TRUE(contains(pairs.err, "single sentences; MRPC has pairs")) << pairs.err;
  const auto other =
      run_here("predict " + at("CoLA") + " --task SST-2 " + at("glue/SST-2/dev.tsv"));
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_TRUE(contains(other.err, "was trained for CoLA, not for SST-2")) << other.err;
  const auto format =
      run_here("predict " + at("CoLA") + " --task CoLA " + at("glue/CoLA/dev.tsv") + " --to jsonl");
  EXPECT_EQ(format.code, 2);
  EXPECT_TRUE(contains(format.err, "expected one of: tsv")) << format.err;
  const auto out = run_here("predict " + at("CoLA") + " " + at("glue/CoLA/dev.tsv") + " --out " +
                            at("nowhere/p.tsv"));
  EXPECT_EQ(out.code, 1);
  EXPECT_FALSE(contains(out.err, "sentences/s")) << out.err;
  const auto task = run_here(finetune("MNIL"));
  EXPECT_EQ(task.code, 2);
  EXPECT_TRUE(contains(task.err, "MNLI")) << task.err;
  const auto missing = run_here("glue --model " + at("encoder") + " --data " + at("nowhere"));
  EXPECT_EQ(missing.code, 1);
  EXPECT_TRUE(contains(missing.err, "make-data glue")) << missing.err;
  EXPECT_EQ(run_here("glue --data " + at("glue")).code, 2);  // which model?
  const auto columns = run_here("predict " + at("CoLA") + " " + at("glue/MRPC/dev.tsv"));
  EXPECT_EQ(columns.code, 1);
  EXPECT_TRUE(contains(columns.err, "MRPC/dev.tsv")) << columns.err;
}

}  // namespace
}  // namespace hydramix
