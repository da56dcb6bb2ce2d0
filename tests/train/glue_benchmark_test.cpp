// SPDX-License-Identifier: Apache-2.0
#include "train/glue_benchmark.h"

#include <csignal>

#include "base/read_file.h"
#include "hydramix/error.h"
#include "support/glue.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

struct GlueBenchmarkTest : ::testing::Test {
  test::TemporaryFolder folder;
  std::vector<std::string> ran;  // in this order
  GlueEvents events;

  GlueBenchmarkTest() {
    events.run = [this](const std::string& name, int64_t number, int64_t) {
      TrainEvents run;
      run.started = [this, name, number](int64_t) {
        ran.push_back(name + " " + std::to_string(number));
      };
      return run;
    };
    test::write_encoder(folder / "encoder");
  }
  GlueOptions options() const {
    GlueOptions o;
    o.model = (folder / "encoder").string();
    o.data = (folder / "glue").string();
    o.out = (folder / "out").string();
    o.recipe = "tiny";
    o.device = "cpu";
    o.max_length = 32;
    return o;
  }
  // Runs the benchmark with this task alone, clears `ran`, and returns the options.
  GlueOptions after(const std::string& task) {
    test::write_glue(folder / "glue", {task}, {16, 8, 4});
    auto o = options();
    o.tasks = {task};
    run_glue(o, events);
    ran.clear();
    return o;
  }
};

TEST_F(GlueBenchmarkTest, RunsTasksAndSeedsOnceAndAveragesThem) {
  test::write_glue(folder / "glue", {"RTE", "MNLI"}, {16, 8, 4});
  auto o = options();
  o.tasks = {"rte", "MNLI"};
  o.seeds = 2;
  const auto results = run_glue(o, events).results;
  EXPECT_EQ(ran, (std::vector<std::string>{"MNLI 1", "MNLI 2", "RTE 1", "RTE 2"}));
  const auto& rte = results.at("tasks").at("RTE");
  const double a = rte.at("runs").at(0).at("score"), b = rte.at("runs").at(1).at("score");
  EXPECT_DOUBLE_EQ(rte.at("mean").get<double>(), (a + b) / 2);
  EXPECT_NEAR(rte.at("deviation").get<double>(), std::abs(a - b) / std::sqrt(2.0), 1e-15);
  EXPECT_DOUBLE_EQ(
      results.at("average").get<double>(),
      (rte.at("mean").get<double>() + results.at("tasks").at("MNLI").at("mean").get<double>()) / 2);
  auto written = nlohmann::ordered_json::parse(read_file(folder / "out/results.json"));
  EXPECT_EQ(written.erase("crc32c"), 1u) << "no checksum";
  EXPECT_EQ(written, results);

  // RTE starts from MNLI's encoder of the same seed.
  const auto config = nlohmann::json::parse(read_file(folder / "out/RTE/seed-18/config.json"));
  EXPECT_EQ(config.at("model"), (folder / "out/MNLI/seed-18").string());

  // If one result is lost, only that run is repeated.
  ran.clear();
  fs::remove(folder / "out/RTE/seed-18/result.json");
  EXPECT_EQ(run_glue(o, events).results.at("average"), results.at("average"));
  EXPECT_EQ(ran, std::vector<std::string>{"RTE 2"});
}

TEST_F(GlueBenchmarkTest, TasksOfAnotherCallStayInTheResults) {
  test::write_glue(folder / "glue", {"CoLA", "SST-2"}, {16, 8, 4});
  auto o = options();
  o.tasks = {"CoLA"};
  const auto first = run_glue(o, events).results;
  o.tasks = {"SST-2"};
  o.data = (folder / "glue/../glue").string();  // the same by another name
  const auto both = run_glue(o, events).results;
  EXPECT_EQ(both.at("tasks").at("CoLA"), first.at("tasks").at("CoLA"));
  EXPECT_DOUBLE_EQ(both.at("average").get<double>(),
                   (both.at("tasks").at("CoLA").at("mean").get<double>() +
                    both.at("tasks").at("SST-2").at("mean").get<double>()) /
                       2);
}

TEST_F(GlueBenchmarkTest, ASignalAtTheEndOfATaskStopsBeforeTheNext) {
  test::write_glue(folder / "glue", {"CoLA", "SST-2"}, {16, 8, 4});
  auto o = options();
  o.tasks = {"SST-2", "CoLA"};
  GlueEvents stopping;
  stopping.run = [this](const std::string& name, int64_t, int64_t) {
    ran.push_back(name);
    TrainEvents run;
    run.step = [](const StepReport& report) {
      if (report.step == report.steps) std::raise(SIGTERM);
    };
    return run;
  };
  EXPECT_EQ(run_glue(o, stopping).end, Trainer::End::kInterrupted);
  EXPECT_EQ(ran, std::vector<std::string>{"SST-2"});
}

TEST_F(GlueBenchmarkTest, MissingTasksAreNamedAndSkippedOnlyIfAsked) {
  test::write_glue(folder / "glue", {"CoLA"}, {16, 8, 4});
  auto o = options();
  o.tasks = {"CoLA", "QNLI", "SST-2"};
  EXPECT_THROW_WITH(run_glue(o, events), Error, "QNLI, SST-2");
  EXPECT_TRUE(ran.empty());
  o.skip_missing = true;
  std::string said;
  events.message = [&](const std::string& text) {
    EXPECT_TRUE(ran.empty());
    said += text + "\n";
  };
  const auto results = run_glue(o, events).results;
  EXPECT_NE(said.find("QNLI/train.tsv"), std::string::npos) << said;
  EXPECT_EQ(results.at("skipped"), (std::vector<std::string>{"QNLI", "SST-2"}));
  EXPECT_EQ(results.at("tasks").size(), 1u);
}

TEST_F(GlueBenchmarkTest, WithoutMnliTheOthersNeedAnotherStart) {
  test::write_glue(folder / "glue", {"MRPC"}, {16, 8, 4});
  auto o = options();
  o.tasks = {"MRPC"};
  EXPECT_THROW_WITH(run_glue(o, events), UsageError, "--start pretrained");
  o.start = "pretrained";
  EXPECT_EQ(run_glue(o, events).results.at("tasks").size(), 1u);

  // MNLI's classifier of an earlier call is reused; its own results are not mixed with these.
  test::write_glue(folder / "glue", {"MNLI"}, {16, 8, 4});
  o.start = "mnli";
  o.out = (folder / "later").string();
  o.tasks = {"MNLI"};
  run_glue(o, events);
  o.tasks = {"MRPC"};
  EXPECT_EQ(run_glue(o, events).results.at("tasks").size(), 2u);
  o.start = "pretrained";
  o.tasks = {"MNLI"};
  EXPECT_EQ(run_glue(o, events).results.at("tasks").size(), 1u);
}

TEST_F(GlueBenchmarkTest, AnMnliClassifierOfAnotherModelWillNotDo) {
  auto o = after("MNLI");
  test::write_glue(folder / "glue", {"RTE"}, {16, 8, 4});
  test::write_encoder(folder / "encoder", "attention");
  o.tasks = {"RTE"};
  EXPECT_THROW_WITH(run_glue(o, events), Error, "MNLI/seed-17/data.json");
  test::write_encoder(folder / "encoder");
  o.recipe = "small";
  o.seeds = 1;
  EXPECT_THROW_WITH(run_glue(o, events), UsageError, "recipe was");
  EXPECT_TRUE(ran.empty());
  o.recipe = "tiny";
  EXPECT_EQ(run_glue(o, events).results.at("tasks").size(), 2u);
}

TEST_F(GlueBenchmarkTest, ResultsOfAnotherModelAreNotAveraged) {
  auto o = after("CoLA");
  test::write_glue(folder / "glue", {"SST-2"}, {16, 8, 4});
  test::write_encoder(folder / "encoder", "attention");
  o.tasks = {"SST-2"};
  std::string said;
  events.message = [&](const std::string& text) { said += text; };
  EXPECT_EQ(run_glue(o, events).results.at("tasks").size(), 1u);
  EXPECT_NE(said.find("fingerprint was"), std::string::npos) << said;
}

TEST_F(GlueBenchmarkTest, DamagedResultsAreNotAveraged) {
  auto o = after("CoLA");
  test::write_glue(folder / "glue", {"SST-2"}, {16, 8, 4});
  const auto path = folder / "out/results.json";
  auto text = read_file(path);
  const std::string from = "\"seed\": ";
  ASSERT_NE(text.find(from), std::string::npos) << text;
  text.replace(text.find(from), from.size(), from + "1");  // 17 becomes 117
  write_file(path, text);
  o.tasks = {"SST-2"};
  std::string said;
  events.message = [&](const std::string& message) { said += message; };
  EXPECT_EQ(run_glue(o, events).results.at("tasks").size(), 1u);
  EXPECT_NE(said.find("results.json: the checksum of its values is"), std::string::npos) << said;
}

TEST_F(GlueBenchmarkTest, FoldersOfOtherRunsAreFoundBeforeAnyTraining) {
  auto o = after("CoLA");
  test::write_glue(folder / "glue", {"SST-2"}, {16, 8, 4});
  o.tasks = {"SST-2", "CoLA"};
  o.max_length = 16;
  EXPECT_THROW_WITH(run_glue(o, events), UsageError, "max_length was 32, is 16");
  o.max_length = 2;
  EXPECT_THROW_WITH(run_glue(o, events), UsageError, "no room");
  EXPECT_TRUE(ran.empty());

  test::write_glue(folder / "glue", {"MNLI", "RTE"}, {16, 8, 4});
  o = options();
  o.tasks = {"RTE"};
  o.start = "pretrained";
  run_glue(o, events);
  ran.clear();
  o.tasks = {"MNLI", "RTE"};
  o.start = "mnli";
  EXPECT_THROW_WITH(run_glue(o, events), UsageError, "--start pretrained");
  EXPECT_TRUE(ran.empty());
}

TEST_F(GlueBenchmarkTest, WnliIsInNoAverage) {
  const std::string rows = "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t0\n1\ta\tc\t1\n";
  fs::create_directories(folder / "glue/WNLI");
  write_file(folder / "glue/WNLI/train.tsv", rows);
  write_file(folder / "glue/WNLI/dev.tsv", rows);
  test::write_glue(folder / "glue", {"CoLA"}, {16, 8, 4});
  auto o = options();
  o.tasks = {"WNLI"};
  EXPECT_TRUE(run_glue(o, events).results.at("average").is_null());
  o.tasks = {"CoLA"};
  const auto both = run_glue(o, events).results;
  EXPECT_EQ(both.at("tasks").size(), 2u);
  EXPECT_EQ(both.at("average"), both.at("tasks").at("CoLA").at("mean"));
}

TEST_F(GlueBenchmarkTest, WhatIsNotSoundInEarlierResultsIsDropped) {
  test::write_glue(folder / "glue", {"CoLA", "SST-2"}, {16, 8, 4});
  auto o = options();
  o.tasks = {"CoLA"};
  auto results = run_glue(o, events).results;
  o.tasks = {"SST-2"};
  for (const auto& runs : {nlohmann::ordered_json::array(), nlohmann::ordered_json("none")}) {
    results["tasks"]["CoLA"]["runs"] = runs;
    write_file(folder / "out/results.json", results.dump());
    EXPECT_EQ(run_glue(o, events).results.at("tasks").size(), 1u);
  }
}

TEST_F(GlueBenchmarkTest, EveryFileIsReadBeforeAnyTraining) {
  test::write_glue(folder / "glue", {"CoLA", "SST-2"}, {16, 8, 4});
  auto text = read_file(folder / "glue/SST-2/dev.tsv");
  write_file(folder / "glue/SST-2/dev.tsv", text + "good\t7\n");
  auto o = options();
  o.tasks = {"CoLA", "SST-2"};
  EXPECT_THROW_WITH(run_glue(o, events), Error, "SST-2/dev.tsv");
  o.tasks = {"CoLA"};
  o.model = "";
  o.recipe = "hydra";
  EXPECT_THROW_WITH(run_glue(o, events), UsageError, "--model");
  EXPECT_TRUE(ran.empty());
}

TEST_F(GlueBenchmarkTest, ASignalEndsItWithNothingLost) {
  test::write_glue(folder / "glue", {"CoLA"}, {16, 8, 4});
  auto o = options();
  o.tasks = {"CoLA"};
  GlueEvents stopping;
  stopping.run = [](const std::string&, int64_t, int64_t) {
    TrainEvents run;
    run.step = [](const StepReport& report) {
      if (report.step == 2) std::raise(SIGINT);
    };
    return run;
  };
  const auto stopped = run_glue(o, stopping);
  EXPECT_EQ(stopped.end, Trainer::End::kInterrupted);
  EXPECT_FALSE(fs::exists(folder / "out/results.json"));
  EXPECT_EQ(run_glue(o, events).end, Trainer::End::kDone);
}

}  // namespace
}  // namespace hydramix
