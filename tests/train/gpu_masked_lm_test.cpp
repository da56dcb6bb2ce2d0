// SPDX-License-Identifier: Apache-2.0
// Masked-language modelling on a GPU: steps captured into graphs.
#include "language/language_documents.h"
#include "ops/graph.h"
#include "support/captured_steps.h"
#include "support/configurations.h"
#include "support/gpu.h"
#include "support/optimizer.h"
#include "support/tensors.h"
#include "train/adamw.h"
#include "train/masked_lm.h"

namespace hydramix {
namespace {

class GpuMaskedLm : public test::OnGpu {
 protected:
  const Tokenizer tokenizer = language_tokenizer();
  const LanguageDocuments documents{{}, Split::kTrain, 100};
  const MaskedBatches batches{documents, tokenizer, {}, 1};

  BertForMaskedLM make_model(const test::Configuration& c = {"hydra"}) const {
    torch::manual_seed(1);
    BertOptions options;
    options.vocab = tokenizer.size();
    options.layers = 2;
    options.dropout = 0.1;
    options.output_dropout = 0.1;
    options.block.d_model = 64;
    options.block.headdim = 32;
    options.block.mixer = c.mixer;
    options.block.mixer_options = c.options({.qk_dim = 16, .d_state = 16, .max_length = 128});
    BertForMaskedLM model(options);
    model->to(test::kGpu);
    model->set_precision(torch::kBFloat16);
    return model;
  }
  MaskedLmSettings settings(bool graphs) const { return {.device = test::kGpu, .graphs = graphs}; }
};

// Repeats one batch: the first step runs directly, the second is captured, the third replayed, and
// another batch in between runs directly too. With dropout, which depends on the numbers of the
// sequences.
TEST_F(GpuMaskedLm, ACapturedStepEqualsADirectOne) {
  const OwnStream stream(test::kGpu);
  const auto gradients = [&](bool graphs) {
    auto model = make_model();
    FlatParameters parameters(*model);
    MaskedLm task(model, batches, documents, batches, settings(graphs));
    return test::results_of_steps(parameters, {3, 3, 3, 20, 3, 3}, [&](int64_t first) {
      return task.accumulate({first, 16}, std::nullopt);
    });
  };
  const auto direct = gradients(false), captured = gradients(true);
  EXPECT_FALSE(torch::equal(direct[0].first, direct[3].first));
  test::expect_close_steps(captured, direct);
  for (const std::size_t i : {1, 2, 4, 5})
    EXPECT_TRUE(torch::equal(captured[i].first, captured[0].first)) << i;
}

// Captured within the first step, before the optimizer has written any weight. Later steps must see
// the weights that it writes.
TEST_F(GpuMaskedLm, CapturedStepsFollowTheWeights) {
  const OwnStream stream(test::kGpu);
  const auto weights = [&](bool graphs) {
    auto model = make_model();
    FlatParameters parameters(*model);
    AdamW optimizer(parameters, {});
    MaskedLm task(model, batches, documents, batches, settings(graphs));
    for (int step = 0; step < 4; ++step) {
      parameters.zero_gradients();
      double terms = 0;
      for (int micro_batch = 0; micro_batch < 3; ++micro_batch)
        terms += task.accumulate({3, 16}, std::nullopt).terms;
      test::take_step(optimizer, 1, terms);
    }
    return parameters.values().clone();
  };
  EXPECT_LE(test::norm_error(weights(true), weights(false)), 1e-3);
}

// Sequences of one length, as a text cut into pieces gives them: the first step runs directly, the
// second is captured, the others are replayed, with other tokens and weights in each.
class GpuMaskedLmOf : public GpuMaskedLm,
                      public ::testing::WithParamInterface<test::Configuration> {};

TEST_P(GpuMaskedLmOf, ReplaysStepsOfEqualLengths) {
  const auto model_options = make_model(GetParam())->options();
  if (!can_be_captured(model_options.block, test::kGpu))
    GTEST_SKIP() << "steps of this mixer are not captured";
  const OwnStream stream(test::kGpu);
  const MaskedBatches joined(documents, tokenizer, {.max_length = 32, .long_documents = "join"}, 1);
  const auto gradients = [&](bool graphs) {
    auto model = make_model(GetParam());
    FlatParameters parameters(*model);
    AdamWOptions options;
    options.rate = 1e-2;
    AdamW optimizer(parameters, options);
    auto how = settings(graphs);
    how.message = [](const std::string& message) { ADD_FAILURE() << message; };
    MaskedLm task(model, joined, documents, joined, how);
    std::vector<std::pair<torch::Tensor, double>> all;
    for (int64_t step = 0; step < 4; ++step) {
      parameters.zero_gradients();
      const auto totals = task.accumulate({16 * step, 16}, std::nullopt);
      all.emplace_back(parameters.gradients().clone(), totals.loss());
      test::take_step(optimizer, 1, totals.terms);
    }
    return all;
  };
  const auto direct = gradients(false), captured = gradients(true);
  EXPECT_GT(test::norm_error(direct[3].first, direct[2].first), 0.1);
  for (std::size_t i = 0; i < direct.size(); ++i) {
    EXPECT_NEAR(captured[i].second, direct[i].second, 1e-3 * direct[i].second) << i;
    EXPECT_LE(test::norm_error(captured[i].first, direct[i].first), 2e-2) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryMixer, GpuMaskedLmOf, ::testing::ValuesIn(test::every_mixer()),
                         test::configuration_name);

}  // namespace
}  // namespace hydramix
