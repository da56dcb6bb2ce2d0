// SPDX-License-Identifier: Apache-2.0
#include "train/recall.h"

#include <cmath>
#include <csignal>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "hydramix/error.h"
#include "support/expect.h"
#include "support/tensors.h"
#include "train/pretrain.h"
#include "train/recall_flops.h"
#include "train/recall_training.h"
#include "train/train_images.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

RecallTrainOptions quick_recall(const std::string& mixer = "attention") {
  RecallTrainOptions options;
  options.device = "cpu";
  options.model.vocab = 32;
  options.model.type_vocab = 1;
  options.model.layers = 1;
  options.model.norm = "pre";
  options.model.initial_deviation = 0.1;
  options.model.block.mixer = mixer;
  options.model.block.d_model = 32;
  options.model.block.headdim = 32;
  options.model.block.d_conv = 4;
  options.model.block.mixer_options.d_state = 8;
  options.recall = {.length = 16, .pairs = 3, .evaluated = 100};
  options.train.steps = 200;
  options.train.batch = options.train.micro_batch = 32;
  options.train.optimizer.rate = 1e-2;
  options.train.evaluate_every = options.train.checkpoint_every = 100;
  return options;
}

BertForMaskedLM model_of(const RecallTrainOptions& options) {
  torch::manual_seed(4);
  return BertForMaskedLM(options.model);
}

TEST(RecallTrainingTest, AModelThatAlwaysGivesOneAnswerIsRightWhereItIsTheAnswer) {
  const auto options = quick_recall();
  const RecallData data(options.recall, options.model.vocab);
  constexpr int64_t kAnswer = 20;
  auto model = model_of(options);
  {
    torch::NoGradGuard no_grad;
    for (auto& item : model->named_parameters())
      if (item.key() == "cls.predictions.decoder.bias")
        item.value().zero_()[kAnswer] = 7;
      else
        item.value().zero_();
  }
  double right = 0, queries = 0;
  for (int64_t i = 0; i < options.recall.evaluated; ++i)
    for (const auto answer : data.example(0, RecallSplit::kTest, i).answers) {
      right += answer == kAnswer;
      ++queries;
    }
  RecallTraining task(model, data, {.micro_batch = 7, .seed = 5});
  const auto sums = task.evaluate(0, 1);
  EXPECT_EQ(sums[1], queries);
  EXPECT_EQ(sums[2], right);
  // The answer's probability is e^7 / (e^7 + 31), that of any other token 1 / (e^7 + 31).
  const double loss = std::log(std::exp(7.0) + 31) - 7 * right / queries;
  const auto summary = task.summary(sums);
  EXPECT_NEAR(summary.at("loss").get<double>(), loss, 1e-4 * loss);
  EXPECT_EQ(summary.at("accuracy").get<double>(), right / queries);

  std::vector<double> shares(3);
  for (int64_t rank = 0; rank < 3; ++rank)
    for (std::size_t i = 0; i < 3; ++i) shares[i] += task.evaluate(rank, 3)[i];
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(shares[i], sums[i], 1e-9 * sums[i]);
}

TEST(RecallTrainingTest, TheLossIsThatOfEverySequenceAloneAtItsQueries) {
  const auto options = quick_recall("hydra");
  const RecallData data(options.recall, options.model.vocab);
  auto model = model_of(options);
  RecallTraining task(model, data, {.seed = 5});
  const auto totals = task.accumulate({11, 4}, std::nullopt);
  double loss = 0;
  for (int64_t i = 11; i < 15; ++i) {
    const auto example = data.example(5, RecallSplit::kTrain, i);
    const auto ids = torch::tensor(example.tokens, torch::kInt64).unsqueeze(0);
    const auto logs = model->predict(model->encode(ids, {}))[0].to(torch::kFloat64).log_softmax(1);
    for (std::size_t q = 0; q < example.positions.size(); ++q)
      loss -= logs[example.positions[q]][example.answers[q]].item<double>();
  }
  EXPECT_EQ(totals.terms, 12);
  EXPECT_EQ(totals.tokens, 64);
  EXPECT_NEAR(totals.loss(), loss, 1e-5 * loss);
}

TEST(RecallTrainingTest, AFaultIsFoundInItsLayer) {
  const auto options = quick_recall();
  const RecallData data(options.recall, options.model.vocab);
  auto model = model_of(options);
  RecallTraining task(model, data, {});
  EXPECT_NE(task.find_fault({0, 2}).find("every layer's output is finite"), std::string::npos);
  torch::NoGradGuard no_grad;
  for (auto& item : model->named_parameters())
    if (item.key().ends_with("out_proj.weight")) item.value().fill_(3e38);
  EXPECT_EQ(task.find_fault({3, 2}),
            "the output of layer 0 is the first not finite, for sequences 3 to 4.");
}

TEST(RecallTest, AttentionLearnsToRecallAndATokenAloneCannot) {
  test::TemporaryFolder folder;
  auto options = quick_recall("attention");
  options.out = folder / "attention";
  EXPECT_GT(train_recall(options).result.at("accuracy").get<double>(), 0.9);

  // Without steps in time the scan adds nothing, and only the skip is left.
  options = quick_recall("semiseparable");
  options.train.steps = 60;
  options.model.block.mixer_options.dt_limit_high = 0;
  options.model.block.d_conv = 1;
  options.out = folder / "alone";
  // 300 queries of 16 equally likely values: 5 deviations.
  EXPECT_LT(train_recall(options).result.at("accuracy").get<double>(),
            1.0 / 16 + 5 * std::sqrt(1.0 / 16 / 300));
}

TEST(RecallTest, AStoppedRunReachesTheSameBits) {
  test::TemporaryFolder folder;
  auto options = quick_recall("hydra");
  options.train.steps = 12;
  options.train.batch = 8;
  options.train.micro_batch = 3;
  options.out = folder / "whole";
  const auto whole = train_recall(options).result;
  options.out = folder / "stopped";
  TrainEvents events;
  events.step = [](const StepReport& report) {
    if (report.step == 5) std::raise(SIGTERM);
  };
  const auto half = train_recall(options, events);
  EXPECT_EQ(half.end, Trainer::End::kInterrupted);
  EXPECT_TRUE(half.result.is_null());
  EXPECT_TRUE(recall_result(options.out).is_null());
  int64_t began = -1;
  events = {};
  events.started = [&](int64_t step) { began = step; };
  const auto rest = train_recall(options, events);
  EXPECT_EQ(began, 5);
  for (const char* key : {"loss", "accuracy", "parameters", "flops_per_token"})
    EXPECT_EQ(rest.result.at(key), whole.at(key)) << key;

  // A complete run is not repeated, and its checkpoints are gone.
  began = -1;
  EXPECT_EQ(train_recall(options, events).result, rest.result);
  EXPECT_EQ(began, -1);
  EXPECT_FALSE(std::filesystem::exists(folder / "stopped/checkpoints"));

  options.recall.pairs = 2;
  EXPECT_THROW_WITH(train_recall(options), UsageError, "recall.pairs was 3, is 2");
  const auto path = folder / "stopped/result.json";
  auto text = read_file(path);
  text.replace(text.find("\"parameters\": ") + 14, 1, "9");
  write_file(path, text);
  EXPECT_THROW_WITH(recall_result(folder / "stopped"), Error, "was changed or damaged");
  write_file(path, "{}");
  EXPECT_THROW_WITH(recall_result(folder / "stopped"), Error,
                    "is not the result of a run on recall");
}

// Commands that take a run of pretraining name the other kinds.
TEST(RecallTest, ARunIsNoRunOfPretraining) {
  const test::TemporaryFolder folder;
  const auto holds = [&](const nlohmann::ordered_json& config) {
    write_file(folder / "config.json", config.dump());
    return is_pretraining_run(folder.path());
  };
  EXPECT_TRUE(holds(to_json(PretrainOptions())));
  EXPECT_FALSE(holds(to_json(ImageTrainOptions())));
  EXPECT_FALSE(holds(to_json(RecallTrainOptions())));
  EXPECT_THROW_WITH(open_trained_model(folder.path()), Error, "is a run of train-recall");
}

TEST(RecallTest, ImpossibleOptionsAreRefusedBeforeAFolderIsMade) {
  test::TemporaryFolder folder;
  auto options = quick_recall();
  options.out = folder / "run";
  options.recall.pairs = 5;
  EXPECT_THROW_WITH(train_recall(options), UsageError, "Give at most 4 pairs.");
  options = quick_recall("toeplitz_di");
  options.out = folder / "run";
  options.model.block.mixer_options.max_length = 8;
  EXPECT_THROW_WITH(train_recall(options), UsageError,
                    "recall.length: 16 is more than model.block.mixer_options.max_length");
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

// H = 4 heads of P = 4 channels, from 8 channels of the model. The convolution has width 3.
TEST(RecallFlopsTest, AreCountedByHand) {
  const auto flops = [](const std::string& mixer, int64_t length) {
    BertOptions options;
    options.vocab = 10;
    options.layers = 2;
    options.block.mixer = mixer;
    options.block.d_model = 8;
    options.block.headdim = 4;
    options.block.d_conv = 3;
    options.block.mixer_options.d_state = 5;
    options.block.mixer_options.qk_dim = 6;
    return forward_flops_per_token(*BertForMaskedLM(options), length);
  };
  // in_proj has z, x and the mixer's columns; the convolution x and those that pass it.
  const auto around = [](double columns, double convolved) {
    return 2 * (8 * (16 + 16 + columns) + 3 * (16 + convolved) + 16 * 8);
  };
  const double scan = 5 * 16 * 5;
  EXPECT_EQ(flops("semiseparable", 64), 2 * (around(5 + 5 + 4, 10) + scan));
  EXPECT_EQ(flops("semiseparable", 64), flops("semiseparable", 512));
  // B and C for both directions, dt for both, and the diagonal fc_D of 16 channels for 4 heads.
  EXPECT_EQ(flops("hydra", 64), 2 * (around(10 + 10 + 8, 20) + 2 * 16 * 4 + 2 * scan));
  EXPECT_EQ(flops("low_rank_dd", 64), 2 * (around(2 * 24, 2 * 24) + 4 * 16 * 6));
  const double each = 4 * (2 * 6 + 2 * 4 + 3);
  EXPECT_EQ(flops("attention", 64), 2 * (around(2 * 24, 2 * 24) + 64 * each));
  EXPECT_EQ(flops("attention_causal", 64), 2 * (around(2 * 24, 2 * 24) + 32.5 * each));
  EXPECT_EQ(flops("toeplitz_di", 64), std::nullopt);
}

}  // namespace
}  // namespace hydramix
