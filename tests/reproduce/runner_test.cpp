// SPDX-License-Identifier: Apache-2.0
// The runner with invented stages: order, interruption and resumption, failures.
#include "reproduce/runner.h"

#include <csignal>

#include "base/atomic_file.h"
#include "base/json_reader.h"
#include "hydramix/error.h"
#include "reproduce/child_process.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;

// Ends after some polls, and notes what happened to it.
class FakeJob : public Job {
 public:
  FakeJob(int polls, bool succeeds, std::vector<std::string>& events, std::string name)
      : polls_(polls), succeeds_(succeeds), events_(events), name_(std::move(name)) {
    events_.push_back("start " + name_);
  }
  std::optional<bool> ended() override {
    if (stopped_) return false;
    if (polls_-- > 0) return std::nullopt;
    events_.push_back("end " + name_);
    return succeeds_;
  }
  void stop() override {
    events_.push_back("stop " + name_);
    stopped_ = true;
  }

 private:
  int polls_;
  bool succeeds_, stopped_ = false;
  std::vector<std::string>& events_;
  std::string name_;
};

class RunnerTest : public ::testing::Test {
 protected:
  Stage stage(const std::string& name, int polls = 1, bool succeeds = true) {
    Stage stage;
    stage.name = name;
    stage.result = folder_ / (name + ".json");
    stage.recipe = "recipe of " + name;
    stage.start = [=, this](int64_t) {
      return std::make_unique<FakeJob>(polls, succeeds, events_, name);
    };
    stage.progress = [] { return 0.5; };
    stage.read = [name] { return Json{{"loss", 1}, {"name", name}}; };
    stage.log = "log of " + name;
    return stage;
  }

  test::TemporaryFolder folder_;
  std::vector<std::string> events_;
};

using Strings = std::vector<std::string>;

TEST_F(RunnerTest, RunsAsManyAsThereAreSlotsAndKeepsResults) {
  const std::vector<Stage> stages{stage("a", 3), stage("b", 1), stage("c", 1)};
  std::vector<RunnerProgress> reports;
  RunnerEvents events;
  events.progress = [&](const RunnerProgress& now) { reports.push_back(now); };
  const auto outcome = run_stages(stages, 2, events);
  EXPECT_FALSE(outcome.interrupted);
  EXPECT_TRUE(outcome.failed.empty());
  EXPECT_EQ(events_, (Strings{"start a", "start b", "end b", "start c", "end a", "end c"}));
  EXPECT_EQ(read_json(folder_ / "b.json", kResultFile).at("recipe"), "recipe of b");
  EXPECT_EQ(reports.front().running, (Strings{"a", "b"}));
  EXPECT_EQ(reports.front().done, 1.0) << "two halves";
  EXPECT_EQ(reports.back().done, 3.0);
}

TEST_F(RunnerTest, DoesNotRepeatFinishedStages) {
  const std::vector<Stage> stages{stage("a"), stage("b")};
  write_file(stages[0].result, Json{{"recipe", "recipe of a"}}.dump());
  check_kept_results(stages);
  double kept = 0;
  RunnerEvents events;
  events.progress = [&](const RunnerProgress& now) { kept = now.kept; };
  run_stages(stages, 1, events);
  EXPECT_EQ(events_, (Strings{"start b", "end b"}));
  EXPECT_EQ(kept, 1.0);
}

TEST_F(RunnerTest, RefusesTheResultOfAnotherRecipe) {
  const std::vector<Stage> stages{stage("a")};
  write_file(stages[0].result, Json{{"recipe", "older"}}.dump());
  EXPECT_THROW_WITH(check_kept_results(stages), UsageError, "by another recipe");
  write_file(stages[0].result, "{");
  EXPECT_THROW_WITH(check_kept_results(stages), Error, "a.json");
}

TEST_F(RunnerTest, StartsAStageAfterTheOneThatItNeeds) {
  std::vector<Stage> stages{stage("pretrain", 2), stage("glue"), stage("other", 4)};
  stages[1].after = 0;
  run_stages(stages, 2, {});
  EXPECT_EQ(events_, (Strings{"start pretrain", "start other", "end pretrain", "start glue",
                              "end glue", "end other"}));
}

TEST_F(RunnerTest, AFailureLeavesOutOnlyWhatNeedsIt) {
  std::vector<Stage> stages{stage("bad", 1, false), stage("needs bad"), stage("good")};
  stages[1].after = 0;
  const auto outcome = run_stages(stages, 1, {});
  EXPECT_EQ(outcome.failed, Strings{"bad: see log of bad"});
  EXPECT_EQ(outcome.skipped, Strings{"needs bad"});
  EXPECT_FALSE(std::filesystem::exists(stages[0].result));
  EXPECT_TRUE(std::filesystem::exists(stages[2].result));
}

TEST_F(RunnerTest, ASignalStopsAndTheNextCallFinishes) {
  std::vector<Stage> stages{stage("a", 0), stage("b", 1000), stage("c")};
  RunnerEvents events;
  bool raised = false;  // a second signal would end the test
  events.progress = [&](const RunnerProgress& now) {
    if (now.running != Strings{"b"} || raised) return;
    raised = true;
    std::raise(SIGINT);
  };
  const auto outcome = run_stages(stages, 1, events);
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_TRUE(outcome.failed.empty()) << "a stopped job has not failed";
  EXPECT_EQ(events_, (Strings{"start a", "end a", "start b", "stop b"}));
  events_.clear();
  stages[1] = stage("b", 1);
  EXPECT_FALSE(run_stages(stages, 1, {}).interrupted);
  EXPECT_EQ(events_, (Strings{"start b", "end b", "start c", "end c"}));
}

// Waits for a real process.
bool finished(Job& job) {
  for (;;)
    if (const auto ended = job.ended()) return *ended;
}

TEST(ChildProcess, HasItsOwnEnvironmentAndLog) {
  test::TemporaryFolder folder;
  const auto log = folder / "log";
  const auto job = start_child(
      {"/bin/sh", {"-c", "echo $GREETING; echo trouble >&2"}, {{"GREETING", "hi"}}, log});
  EXPECT_TRUE(finished(*job));
  EXPECT_EQ(read_file(log), "hi\ntrouble\n");
}

TEST(ChildProcess, ReportsFailuresAndStops) {
  test::TemporaryFolder folder;
  EXPECT_FALSE(finished(*start_child({"/bin/sh", {"-c", "exit 3"}, {}, folder / "log"})));
  EXPECT_FALSE(finished(*start_child({"/no/such/program", {}, {}, folder / "log"})));
  const auto sleeping = start_child({"/bin/sleep", {"1000"}, {}, folder / "log"});
  EXPECT_FALSE(sleeping->ended());
  sleeping->stop();
  EXPECT_FALSE(finished(*sleeping));
}

}  // namespace
}  // namespace hydramix
