// SPDX-License-Identifier: Apache-2.0
// Losses against the formulas of their definitions, by plain loops.
#include "train/objective.h"

#include <cmath>

#include "support/tensors.h"

namespace hydramix {
namespace {

struct ObjectiveCase {
  TextTask task;
  std::vector<EncodedExample> examples;

  ExampleBatch batch() const {
    ExampleBatch batch;
    std::vector<double> targets;
    for (const auto& example : examples) {
      batch.examples.push_back(&example);
      targets.insert(targets.end(), example.targets.begin(), example.targets.end());
    }
    batch.targets = torch::tensor(targets, torch::kFloat64);
    return batch;
  }
};

ObjectiveCase pairs_case(const std::vector<double>& scores) {
  ObjectiveCase c;
  c.task.kind = LabelKind::kPairs;
  c.task.metrics = {"mrr"};
  for (int32_t i = 0; i < 4; ++i) {
    EncodedExample example;
    example.ids = {1, 10 + i};
    example.partner_ids = {1, 20 + i};
    if (!scores.empty()) example.targets = {scores[static_cast<std::size_t>(i)]};
    c.examples.push_back(example);
  }
  return c;
}

// z (8, 3): cosines [first][second]
std::vector<std::vector<double>> cosines(const torch::Tensor& z) {
  std::vector<std::vector<double>> c(4, std::vector<double>(4));
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 4; ++j)
      c[i][j] =
          (z[2 * i].dot(z[2 * j + 1]) / (z[2 * i].norm() * z[2 * j + 1].norm())).item<double>();
  return c;
}

TEST(PairObjective, TellsEachPartnerFromTheOthersOfTheBatch) {
  auto c = pairs_case({});
  c.examples[3].partner_ids = c.examples[1].partner_ids;  // the same text: no negative of 1
  const auto objective = make_objective(c.task, {0.1, 3}, c.examples);
  torch::manual_seed(2);
  const auto z = torch::randn({8, 3}, torch::kFloat64);
  const auto cos = cosines(z);
  const auto counts = [](int64_t i, int64_t j) {
    return !((i == 1 && j == 3) || (i == 3 && j == 1));
  };
  double expected = 0;
  for (int64_t i = 0; i < 4; ++i) {
    double row = 0, column = 0;
    for (int64_t j = 0; j < 4; ++j) {
      if (counts(i, j)) row += std::exp(cos[i][j] / 0.1);
      if (counts(j, i)) column += std::exp(cos[j][i] / 0.1);
    }
    expected += (std::log(row) + std::log(column)) / 2 - cos[i][i] / 0.1;
  }
  EXPECT_NEAR(objective->loss(z, c.batch()).item<double>(), expected, 1e-10);
  EXPECT_EQ(objective->sequences(), 2);
}

TEST(PairObjective, OrdersPairsByTheirScores) {
  const std::vector<double> scores{3, 1, 3, 5};
  const auto c = pairs_case(scores);
  const auto objective = make_objective(c.task, {0.2, 3}, c.examples);
  torch::manual_seed(3);
  const auto z = torch::randn({8, 3}, torch::kFloat64);
  const auto cos = cosines(z);
  double sum = 1;
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 4; ++j)
      if (scores[i] > scores[j]) sum += std::exp((cos[j][j] - cos[i][i]) / 0.2);
  EXPECT_NEAR(objective->loss(z, c.batch()).item<double>(), 4 * std::log(sum), 1e-10);
}

TEST(PairObjective, PerfectVectorsScoreOne) {
  auto c = pairs_case({});
  c.task.metrics = {"recall@1", "recall@10", "mrr"};
  const auto objective = make_objective(c.task, {0.05, 3}, c.examples);
  const auto directions = torch::tensor(
      {{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}, {0.0, 0.0, 1.0}, {-1.0, 0.0, 0.0}}, torch::kFloat64);
  const auto z = directions.repeat_interleave(2, 0);
  auto values = objective->values(z * 7, c.batch());
  const auto metrics = [&](const torch::Tensor& v) {
    return objective->metrics(c.examples, {v.data_ptr<double>(), 24});
  };
  EXPECT_EQ(metrics(values).at("mrr"), 1.0);
  values = objective->values(torch::ones_like(z), c.batch());  // all alike: the worst rank
  EXPECT_EQ(metrics(values).at("mrr"), 0.25);
}

TEST(LabelsObjective, IsTheBinaryCrossEntropyOfEachLabel) {
  ObjectiveCase c;
  c.task = {"labels", LabelKind::kLabels, false, {"a", "b"}, {"micro_f1", "macro_f1", "exact"}};
  c.examples.resize(2);
  c.examples[0].targets = {1, 0};
  c.examples[1].targets = {1, 1};
  const auto objective = make_objective(c.task, {}, c.examples);
  const auto z = torch::tensor({{0.5, -2.0}, {-1.0, 40.0}}, torch::kFloat64);
  const double expected = std::log1p(std::exp(-0.5)) + std::log1p(std::exp(-2.0)) +
                          std::log1p(std::exp(1.0)) + std::log1p(std::exp(-40.0));
  EXPECT_NEAR(objective->loss(z, c.batch()).item<double>(), expected, 1e-12);
  EXPECT_EQ(objective->terms(c.batch()), 4);
  EXPECT_EQ(objective->correct(z, c.batch()).item<double>(), 3);
}

TEST(TokensObjective, LearnsFromTheFirstPieceOfEachWord) {
  ObjectiveCase c;
  c.task = {"tokens", LabelKind::kTokens, false, {"O", "B-X"}, {"f1"}};
  c.examples.resize(2);
  c.examples[0] = {{1, 5, 6, 2}, {0, 0, 0, 0}, {1}, 1};  // one word of two pieces
  c.examples[0].places = {1};
  c.examples[1] = {{1, 7, 2}, {0, 0, 0}, {0, 1}, 2};  // the second word was cut off
  c.examples[1].places = {1, -1};
  const auto objective = make_objective(c.task, {}, c.examples);
  torch::manual_seed(1);
  const auto z = torch::randn({7, 2}, torch::kFloat64);
  const auto shares = z.log_softmax(1);
  const double expected = -(shares[1][1] + shares[5][0]).item<double>();
  EXPECT_NEAR(objective->loss(z, c.batch()).item<double>(), expected, 1e-12);
  EXPECT_EQ(objective->terms(c.batch()), 2);
  const auto values = objective->values(z, c.batch());
  EXPECT_EQ(values[0].item<double>(), z[1].argmax().item<double>());
  EXPECT_EQ(values[2].item<double>(), -1);
  EXPECT_EQ(objective->width(c.examples[1]), 2);
  // The cut word was an entity: it is missed.
  const std::vector<double> said{1, 0, -1};
  EXPECT_DOUBLE_EQ(objective->metrics(c.examples, said).at("f1").get<double>(), 2.0 / 3);
}

}  // namespace
}  // namespace hydramix
