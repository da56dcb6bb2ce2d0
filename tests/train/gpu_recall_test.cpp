// SPDX-License-Identifier: Apache-2.0
// Associative recall on a GPU: steps captured into graphs.
#include "ops/graph.h"
#include "support/captured_steps.h"
#include "support/gpu.h"
#include "support/tensors.h"
#include "train/flat_parameters.h"
#include "train/recall_training.h"

namespace hydramix {
namespace {

class GpuRecall : public test::OnGpu, public ::testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(EveryModelOfTheGrid, GpuRecall,
                         ::testing::Values("hydra", "semiseparable", "s6", "low_rank_dd",
                                           "attention", "attention_causal"),
                         [](const auto& test) { return test.param; });

// The first step runs directly, the second is captured, the others are replayed, with other
// sequences in each.
TEST_P(GpuRecall, ACapturedStepEqualsADirectOne) {
  const OwnStream stream(test::kGpu);
  BertOptions options;
  options.vocab = 64;
  options.type_vocab = 1;
  options.layers = 2;
  options.block.mixer = GetParam();
  options.block.d_model = 64;
  options.block.headdim = 32;
  options.block.mixer_options = {.qk_dim = 16, .d_state = 16, .max_length = 64};
  const RecallData data({.length = 64, .pairs = 8, .evaluated = 10}, options.vocab);
  const auto gradients = [&](bool graphs) {
    torch::manual_seed(1);
    BertForMaskedLM model(options);
    model->to(test::kGpu);
    model->set_precision(torch::kBFloat16);
    FlatParameters parameters(*model);
    RecallSettings settings{.device = test::kGpu, .graphs = graphs};
    settings.message = [](const std::string& message) { ADD_FAILURE() << message; };
    RecallTraining task(model, data, settings);
    return test::results_of_steps(parameters, {0, 1, 2, 3, 2}, [&](int64_t step) {
      return task.accumulate({16 * step, 16}, std::nullopt);
    });
  };
  const auto direct = gradients(false), captured = gradients(true);
  EXPECT_FALSE(torch::equal(direct[2].first, direct[3].first));
  test::expect_close_steps(captured, direct);
  EXPECT_TRUE(torch::equal(captured[4].first, captured[2].first));
}

}  // namespace
}  // namespace hydramix
