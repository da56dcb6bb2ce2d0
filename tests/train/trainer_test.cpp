// SPDX-License-Identifier: Apache-2.0
// The trainer on a task small enough to check every step: least squares in float64.
#include "train/trainer.h"

#include <cmath>
#include <csignal>

#include "base/random.h"
#include "base/read_file.h"
#include "hydramix/error.h"
#include "support/expect.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

// y = a x + b, each sequence one example drawn by its number.
class LeastSquares : public Task {
 public:
  LeastSquares() : line_(3, 1) {
    torch::manual_seed(5);
    line_ = torch::nn::Linear(3, 1);
    line_->to(torch::kFloat64);
  }

  torch::nn::Module& model() override { return *line_; }
  Totals accumulate(Slice slice, std::optional<Slice>) override {
    Totals totals;
    auto sum = torch::zeros({}, torch::kFloat64);
    for (int64_t i = slice.first; i < slice.first + slice.count; ++i) {
      seen.push_back(i);
      Random random(0, 0, static_cast<uint64_t>(i));
      const auto x =
          torch::tensor({random.uniform(), random.uniform(), random.uniform()}, torch::kFloat64);
      auto loss = (line_(x) - x.sum() - 1).square().sum();
      if (bad_from >= 0 && i >= bad_from && i < bad_to) loss = loss * kInfinity;
      sum = sum + loss;
      totals.terms += 1;
    }
    sum.backward();
    totals.set_sums(sum, torch::zeros({}));
    if (signal_at >= 0 && slice.first >= signal_at) {
      signal_at = -1;
      std::raise(SIGTERM);
    }
    return totals;
  }
  std::vector<double> evaluate(int64_t rank, int64_t) override {
    if (++evaluations >= first_bad_evaluation) return {std::nan("")};
    return {rank == 0 ? (line_->weight - 1).square().sum().item<double>() : 0.0};
  }
  nlohmann::ordered_json summary(const std::vector<double>& sums) const override {
    return {{"loss", sums[0]}};
  }
  bool evaluates_average() const override { return averaging; }
  void take_sums(const std::vector<double>& sums, bool average) override {
    taken.emplace_back(sums[0], average);
  }
  std::string find_fault(Slice slice) override {
    return concat("sequence ", slice.first, " is at fault.");
  }

  torch::Tensor weights() const { return torch::cat({line_->weight.flatten(), line_->bias}); }

  std::vector<int64_t> seen;
  int64_t bad_from = -1, bad_to = -1, signal_at = -1;
  int evaluations = 0, first_bad_evaluation = 1000;
  bool averaging = false;
  std::vector<std::pair<double, bool>> taken;  // sums of evaluations, and whether of the average

 private:
  torch::nn::Linear line_;
};

TrainOptions quick_options() {
  TrainOptions options;
  options.steps = 20;
  options.batch = 6;
  options.micro_batch = 4;
  options.optimizer.rate = 0.05;
  options.log_every = 1;
  options.evaluate_every = 7;
  options.checkpoint_every = 5;
  options.keep = 2;
  return options;
}

struct Run {
  Trainer::End end = Trainer::End::kDone;
  torch::Tensor weights;
  std::vector<std::string> messages;
};

bool late = false;  // the parameter of the tests below

Run train(LeastSquares& task, const TrainOptions& options, const std::filesystem::path& folder) {
  const auto alone = make_communicator({}, torch::kCPU);
  Run run;
  TrainEvents events;
  events.message = [&](const std::string& m) { run.messages.push_back(m); };
  Trainer trainer(task, options, *alone, folder, events);
  trainer.read_late(late);
  run.end = trainer.run();
  run.weights = task.weights().detach().clone();
  return run;
}

// Numbers of a step are read at once, as on the CPU, or during the next step, as on a GPU.
class TrainerTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { late = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(All, TrainerTest, ::testing::Bool(), [](const auto& test_case) {
  return std::string(test_case.param ? "late" : "at_once");
});

TEST_P(TrainerTest, ReadsEverySequenceOnceInOrderAndLearns) {
  test::TemporaryFolder folder;
  LeastSquares task;
  auto options = quick_options();
  options.steps = 300;
  const auto run = train(task, options, folder.path());
  EXPECT_EQ(run.end, Trainer::End::kDone);
  ASSERT_EQ(task.seen.size(), 1800u);
  for (std::size_t i = 0; i < task.seen.size(); ++i)
    ASSERT_EQ(task.seen[i], static_cast<int64_t>(i));
  EXPECT_LT((run.weights - 1).abs().max().item<double>(), 0.05);
}

TEST_P(TrainerTest, MicroBatchesDoNotMatter) {
  std::vector<torch::Tensor> weights;
  for (const int64_t micro : {1, 2, 4, 6, 100}) {
    test::TemporaryFolder folder;
    LeastSquares task;
    auto options = quick_options();
    options.micro_batch = micro;
    weights.push_back(train(task, options, folder.path()).weights);
  }
  for (const auto& w : weights) test::expect_close(w, weights[0], 1e-12, "but for rounding");
}

TEST_P(TrainerTest, ContinuesToTheSameBitsFromEveryStep) {
  test::TemporaryFolder whole;
  LeastSquares reference;
  auto options = quick_options();
  options.optimizer.ema = 0.5;
  options.optimizer.ema_warmup = true;
  options.optimizer.decay_rule = "times_rate";
  options.optimizer.groups = {"bias rate=0.1 decay=0.2"};
  options.schedule.shape = "cosine";
  const auto expected = train(reference, options, whole.path()).weights;
  const auto average =
      read_checkpoint(whole / "checkpoints/step-0000000020.safetensors").tensors.at("average.bias");
  for (int64_t stop = 0; stop < 20; stop += 3) {
    test::TemporaryFolder folder;
    LeastSquares first;
    first.signal_at = 6 * stop;  // in the middle of step `stop`, which is then interrupted
    const auto half = train(first, options, folder.path());
    EXPECT_EQ(half.end, Trainer::End::kInterrupted) << stop;
    LeastSquares second;
    const auto rest = train(second, options, folder.path());
    EXPECT_EQ(rest.end, Trainer::End::kDone);
    EXPECT_EQ(second.seen.front(), 6 * stop) << "done steps are not done again";
    EXPECT_TRUE(torch::equal(rest.weights, expected)) << "stopped in step " << stop;
    EXPECT_TRUE(torch::equal(read_checkpoint(folder / "checkpoints/step-0000000020.safetensors")
                                 .tensors.at("average.bias"),
                             average));
  }
}

TEST_P(TrainerTest, ADamagedCheckpointIsReportedAndThePreviousOneGivesTheSameBits) {
  test::TemporaryFolder whole, folder;
  LeastSquares reference, first, second;
  const auto options = quick_options();
  const auto expected = train(reference, options, whole.path()).weights;
  first.signal_at = 6 * 12;
  train(first, options, folder.path());
  std::filesystem::resize_file(folder / "checkpoints/step-0000000012.safetensors", 300);
  const auto run = train(second, options, folder.path());
  ASSERT_GE(run.messages.size(), 2u);
  EXPECT_NE(run.messages[0].find("step-0000000012.safetensors"), std::string::npos);
  EXPECT_EQ(run.messages[1], "continuing after step 10");
  EXPECT_TRUE(torch::equal(run.weights, expected));
}

TEST_P(TrainerTest, MetricsHaveEveryStepOnceAfterAContinuation) {
  test::TemporaryFolder folder;
  LeastSquares first, second;
  const auto options = quick_options();
  first.signal_at = 6 * 12;
  train(first, options, folder.path());
  std::filesystem::resize_file(folder / "checkpoints/step-0000000012.safetensors", 300);
  std::FILE* file = std::fopen((folder / "metrics.jsonl").c_str(), "a");
  std::fputs("{\"step\": 12, \"lo", file);  // half a line of a killed run
  std::fclose(file);
  train(second, options, folder.path());
  std::istringstream lines(read_file(folder / "metrics.jsonl"));
  int64_t step = 0;
  std::vector<int64_t> evaluated;
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    if (object.contains("evaluation/loss"))
      evaluated.push_back(object["step"]);
    else
      EXPECT_EQ(object["step"], ++step);
  }
  EXPECT_EQ(step, 20);
  EXPECT_EQ(evaluated, (std::vector<int64_t>{7, 14, 20}));
}

TEST_P(TrainerTest, AStepThatIsNotFiniteIsSkippedAndCounted) {
  test::TemporaryFolder folder;
  LeastSquares task;
  task.bad_from = 6 * 3 + 2;
  task.bad_to = 6 * 4 + 1;  // steps 3 and 4
  const auto run = train(task, quick_options(), folder.path());
  EXPECT_TRUE(torch::isfinite(run.weights).all().item<bool>());
  ASSERT_EQ(run.messages.size(), 2u);
  EXPECT_EQ(run.messages[0], "step 3 skipped: the gradient of 'bias' is not finite (1 in a row)");
  const auto text = read_file(folder / "metrics.jsonl");
  EXPECT_NE(text.find("\"skipped\":2"), std::string::npos) << text;
}

TEST_P(TrainerTest, GivesUpAfterTooManyAndNamesWeightAndBatch) {
  test::TemporaryFolder folder;
  LeastSquares task;
  task.bad_from = 6 * 3 + 5;
  task.bad_to = 1000;
  auto options = quick_options();
  options.most_skipped = 4;
  EXPECT_THROW_WITH(train(task, options, folder.path()), Error,
                    "training gave up at step 6: 4 steps in a row");
  LeastSquares again;
  again.bad_from = 0;
  again.bad_to = 1000;
  test::TemporaryFolder other;
  EXPECT_THROW_WITH(train(again, options, other.path()), Error, "sequence 18 is at fault");
}

TEST_P(TrainerTest, ALastEvaluationThatIsNotFiniteIsAFailure) {
  test::TemporaryFolder folder;
  LeastSquares task;
  task.first_bad_evaluation = 2;  // of steps 7, 14 and 20
  EXPECT_THROW_WITH(train(task, quick_options(), folder.path()), Error,
                    "after 20 steps the loss of the evaluation is not finite. No model is "
                    "written. The best checkpoint is ");
  EXPECT_TRUE(std::filesystem::exists(folder / "checkpoints/best.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder / "checkpoints/step-0000000020.safetensors"));
  EXPECT_NE(read_file(folder / "metrics.jsonl").find("\"evaluation/loss\":null"),
            std::string::npos);
  LeastSquares again;
  again.first_bad_evaluation = 1;
  EXPECT_THROW_WITH(train(again, quick_options(), folder.path()), Error, "training failed");
}

TEST_P(TrainerTest, PatienceDoesNotEndARunWithoutAFiniteEvaluation) {
  test::TemporaryFolder folder;
  LeastSquares task;
  task.first_bad_evaluation = 1;
  auto options = quick_options();
  options.patience = 2;  // after steps 7 and 14
  EXPECT_THROW_WITH(train(task, options, folder.path()), Error,
                    "after 14 steps the loss of the evaluation is not finite. No model is "
                    "written. No checkpoint has a finite evaluation.");
}

TEST_P(TrainerTest, ARunWhoseStepsWereSkippedIsAFailure) {
  test::TemporaryFolder folder;
  LeastSquares task;
  task.bad_from = 0;
  task.bad_to = 6 * 11;
  auto options = quick_options();
  options.most_skipped = 100;
  EXPECT_THROW_WITH(train(task, options, folder.path()), Error, "11 of 20 steps were skipped");
  test::TemporaryFolder other;
  LeastSquares half;
  half.bad_from = 0;
  half.bad_to = 6 * 10;
  EXPECT_EQ(train(half, options, other.path()).end, Trainer::End::kDone);
}

TEST_P(TrainerTest, EvaluatesTheAverageOfTheWeightsBesideThem) {
  test::TemporaryFolder folder, plain;
  auto options = quick_options();
  options.optimizer.ema = 0.5;
  LeastSquares task, other;
  task.averaging = true;
  const auto run = train(task, options, folder.path());
  EXPECT_TRUE(run.weights.equal(train(other, options, plain.path()).weights))
      << "evaluating the average changes no weight";
  // At steps 7, 14 and 20: the weights, then the average.
  ASSERT_EQ(task.taken.size(), 6u);
  EXPECT_EQ(other.taken.size(), 3u);
  const auto last = read_checkpoint(folder / "checkpoints/step-0000000020.safetensors");
  const double distance = (last.tensors.at("average.weight") - 1).square().sum().item<double>();
  EXPECT_TRUE(task.taken[5].second);
  EXPECT_EQ(task.taken[5].first, distance);
  EXPECT_NE(task.taken[4].first, distance);
  const std::string lines = read_file(folder / "metrics.jsonl");
  EXPECT_NE(lines.find("\"evaluation/average\":{\"loss\":"), std::string::npos) << lines;
}

TEST_P(TrainerTest, ACheckpointOfAnotherModelIsAnError) {
  test::TemporaryFolder folder;
  LeastSquares task;
  const auto options = quick_options();
  train(task, options, folder.path());
  auto other = options;
  other.optimizer.ema = 0.5;  // the checkpoint holds no average
  LeastSquares second;
  EXPECT_THROW_WITH(train(second, other, folder.path()), Error,
                    "the checkpoint lacks 'average.weight'");
}

TEST(ExamplesAtOnce, KeepAGpuBusyUnlessTheyAreGiven) {
  TrainOptions options;
  EXPECT_EQ(examples_at_once(options, torch::kCPU, 128), 32);
  EXPECT_EQ(examples_at_once(options, torch::kCUDA, 128), 256);
  EXPECT_EQ(examples_at_once(options, torch::kCUDA, 196), 128);
  EXPECT_EQ(examples_at_once(options, torch::kCUDA, 2048), 16);
  EXPECT_EQ(examples_at_once(options, torch::kCUDA, 100'000), 1);
  options.micro_batch = 6;
  EXPECT_EQ(examples_at_once(options, torch::kCPU, 128), 6);
  EXPECT_EQ(examples_at_once(options, torch::kCUDA, 128), 6);
}

TEST(LateNumbersOfAStep, ChangeNoBitOfTheResults) {
  std::vector<torch::Tensor> weights;
  std::vector<std::string> metrics;
  std::vector<std::vector<std::string>> messages;
  for (const bool is_late : {false, true}) {
    late = is_late;
    test::TemporaryFolder folder;
    LeastSquares task;
    task.bad_from = 6 * 3 + 2;
    task.bad_to = 6 * 4 + 1;  // steps 3 and 4 are skipped
    const auto run = train(task, quick_options(), folder.path());
    weights.push_back(run.weights);
    messages.push_back(run.messages);
    std::string lines;  // without the rates, which are measured
    std::istringstream text(read_file(folder / "metrics.jsonl"));
    for (std::string line; std::getline(text, line);) {
      auto object = nlohmann::ordered_json::parse(line);
      object.erase("tokens_per_second");
      object.erase("flops_per_second");
      lines += object.dump() + "\n";
    }
    metrics.push_back(lines);
  }
  EXPECT_TRUE(torch::equal(weights[0], weights[1]));
  EXPECT_EQ(metrics[0], metrics[1]);
  EXPECT_EQ(messages[0], messages[1]);
}

}  // namespace
}  // namespace hydramix
