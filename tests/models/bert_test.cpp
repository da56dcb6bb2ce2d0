// SPDX-License-Identifier: Apache-2.0
#include "hydramix/bert.h"

#include <torch/optim/adamw.h>

#include "hydramix/error.h"
#include "support/expect.h"
#include "support/models.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;
using test::tiny_bert;

TEST(Bert, OverfitsOneBatchWithEveryMixer) {
  for (const auto& name : mixer_names()) {
    torch::manual_seed(1);
    BertForMaskedLM model(tiny_bert(name));
    torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(2e-2));
    const auto ids = torch::randint(5, 30, {2, 9}, torch::kInt64);
    const auto labels = torch::randint(5, 30, {2, 9}, torch::kInt64);
    double first = 0, last = kInfinity;
    for (int step = 0; step < 150 && last >= 0.2; ++step) {
      const auto loss = BertForMaskedLMImpl::loss(model->predict(model->encode(ids, {})), labels);
      (step == 0 ? first : last) = loss.item<double>();
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
    EXPECT_GT(first, 2.0) << name;
    EXPECT_LT(last, 0.2) << name << ": the loss fell from " << first << " to " << last << " only";
  }
}

TEST(Bert, TruncatedNormalWeightsStayWithinTwoDeviations) {
  auto options = test::tiny_bert("hydra");
  options.vocab = 5000;
  options.initial_deviation = 0.05;
  for (const auto* distribution : {"normal", "truncated_normal"}) {
    options.initial_distribution = distribution;
    torch::manual_seed(8);
    const BertForMaskedLM model(options);
    const auto words = model->named_parameters()["bert.embeddings.word_embeddings.weight"].detach();
    const bool truncated = std::string(distribution) != "normal";
    EXPECT_EQ(words.abs().max().item<double>() <= 0.1, truncated);
    // Between -2 and 2 the deviation of a normal variable is sqrt(1 - 4 phi(2) / erf(sqrt 2)) =
    // 0.8796; that of 80000 samples is within 1 %.
    EXPECT_NEAR(words.std().item<double>(), truncated ? 0.05 * 0.8796 : 0.05, 0.0005);
    EXPECT_NEAR(words.mean().item<double>(), 0, 0.001);
  }
}

TEST(Bert, AModelKeepsTheInitialStepsOfItsMixer) {
  torch::manual_seed(8);
  for (const auto* mixer : {"semiseparable", "s6"}) {
    auto options = test::tiny_bert(mixer);
    const BertForMaskedLM model(options);
    const auto& mixer_options = options.block.mixer_options;
    for (const auto& item : model->named_parameters()) {
      if (!item.key().ends_with("dt_bias") && !item.key().ends_with("dt_proj.bias")) continue;
      const auto dt = torch::softplus(item.value());
      EXPECT_GE(dt.min().item<double>(), 0.99 * mixer_options.dt_min) << item.key();
      EXPECT_LE(dt.max().item<double>(), 1.01 * mixer_options.dt_max) << item.key();
    }
  }
}

TEST(Bert, PaddingChangesNoLogit) {
  // The published model's logits move by 3 % when 8 padding tokens are added.
  torch::manual_seed(2);
  BertForMaskedLM model(tiny_bert("hydra"));
  model->to(torch::kFloat64);
  const auto ids = torch::randint(1, 30, {1, 7}, torch::kInt64);
  const auto alone = model->predict(model->encode(ids, {}));
  const auto longer = torch::cat({ids, torch::zeros({1, 8}, torch::kInt64)}, 1);
  const auto padded =
      model->predict(model->encode(longer, {}, Layout::padded(torch::arange(15).unsqueeze(0) < 7)));
  expect_close(padded.narrow(1, 0, 7), alone, 1e-12, "padded");
}

TEST(Bert, LossCountsLabelsAboveZero) {
  const auto logits = torch::tensor({{{0., 1., 2.}, {3., 4., 5.}, {1., 1., 7.}}}, torch::kFloat64);
  const auto expected = -torch::log_softmax(logits[0][0], 0)[2] / 1;
  EXPECT_TRUE(
      torch::allclose(BertForMaskedLMImpl::loss(logits, torch::tensor({{2, -100, 0}})), expected));
  EXPECT_EQ(BertForMaskedLMImpl::loss(logits, torch::tensor({{-100, -100, 0}})).item<double>(), 0);
}

TEST(Bert, BadInputIsNamed) {
  BertForMaskedLM model(tiny_bert("hydra"));
  const auto ids = torch::randint(1, 30, {2, 7}, torch::kInt64);
  EXPECT_THROW_WITH(model->encode(torch::full({1, 2}, 30, torch::kInt64), {}), Error,
                    "ids must be in [0, 29]; got 30");
  EXPECT_THROW_WITH(model->encode(torch::full({1, 2}, -1, torch::kInt64), {}), Error, "got -1");
  EXPECT_THROW_WITH(model->encode(torch::rand({1, 2}), {}), Error, "must be (B, L) int64");
  EXPECT_THROW_WITH(model->encode(ids, torch::full({2, 7}, 2, torch::kInt64)), Error,
                    "type_ids must be in [0, 1]; got 2");
  EXPECT_THROW_WITH(model->encode(ids, torch::zeros({2, 6}, torch::kInt64)), Error,
                    "the shape of ids");
  EXPECT_THROW_WITH(model->predict(torch::zeros({2, 7, 15})), Error, "got shape [2, 7, 15]");
  EXPECT_THROW_WITH(
      BertForMaskedLMImpl::loss(torch::zeros({1, 1, 4}), torch::full({1, 1}, 4, torch::kInt64)),
      Error, "label 4 is beyond the vocabulary of 4");
  EXPECT_THROW_WITH(
      BertForMaskedLMImpl::loss(torch::zeros({2, 3, 4}), torch::zeros({2, 4}, torch::kInt64)),
      Error, "one label per row of logits [2, 3, 4]");
}

}  // namespace
}  // namespace hydramix
