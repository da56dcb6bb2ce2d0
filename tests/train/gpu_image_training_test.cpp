// SPDX-License-Identifier: Apache-2.0
// Training on images on a GPU: steps captured into graphs, and the average of the weights.
#include "ops/graph.h"
#include "support/captured_steps.h"
#include "support/gpu.h"
#include "support/images.h"
#include "support/optimizer.h"
#include "support/tensors.h"
#include "train/adamw.h"
#include "train/image_training.h"

namespace hydramix {
namespace {

class GpuImageTraining : public test::OnGpu {
 protected:
  static ImageModel make_model(const std::string& mixer = "hydra") {
    torch::manual_seed(1);
    ImageModelOptions options;
    options.size = 16;
    options.patch = 4;
    options.classes = 5;
    options.layers = 2;
    options.stochastic_depth = 0.4;
    options.block.mixer = mixer;
    options.block.d_model = 64;
    options.block.headdim = 32;
    options.block.mixer_options.d_state = 16;
    ImageModel model(options);
    model->to(test::kGpu);
    model->set_precision(torch::kBFloat16);
    return model;
  }
  static ImageTrainingSettings settings(bool graphs) {
    ImageTrainingSettings settings;
    settings.training = [](int64_t first, int64_t count) {
      return test::noise_images(first, count, 3 * 16 * 16, /*classes=*/5);
    };
    settings.validation = settings.training;
    settings.validation_images = 20;
    settings.augment.size = 16;
    settings.batch = settings.micro_batch = 8;
    settings.device = test::kGpu;
    settings.graphs = graphs;
    return settings;
  }
};

// The first step runs directly, the second is captured, the others are replayed, with other images,
// mixing and stochastic depth in each.
class GpuImageTrainingOf : public GpuImageTraining,
                           public ::testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(EveryModelOfTable5, GpuImageTrainingOf,
                         ::testing::Values("hydra", "attention", "s4nd", "hyena", "semiseparable"),
                         [](const auto& test) { return test.param; });

TEST_P(GpuImageTrainingOf, ACapturedStepEqualsADirectOne) {
  const OwnStream stream(test::kGpu);
  const auto gradients = [&](bool graphs) {
    auto model = make_model(GetParam());
    FlatParameters parameters(*model);
    ImageTraining task(model, settings(graphs));
    return test::results_of_steps(parameters, {0, 1, 2, 3, 2}, [&](int64_t step) {
      return task.accumulate({8 * step, 8}, Slice{8 * step + 8, 8});
    });
  };
  const auto direct = gradients(false), captured = gradients(true);
  EXPECT_FALSE(torch::equal(direct[2].first, direct[3].first));
  test::expect_close_steps(captured, direct);
  EXPECT_TRUE(torch::equal(captured[4].first, captured[2].first));
}

// An evaluation of the average between captured steps leaves no trace in them.
TEST_F(GpuImageTraining, CapturedStepsFollowTheWeightsAroundAnEvaluationOfTheAverage) {
  const OwnStream stream(test::kGpu);
  const auto weights = [&](bool evaluations) {
    auto model = make_model();
    FlatParameters parameters(*model);
    AdamWOptions options;
    options.ema = 0.5;
    AdamW optimizer(parameters, options);
    ImageTraining task(model, settings(/*graphs=*/true));
    for (int64_t step = 0; step < 5; ++step) {
      parameters.zero_gradients();
      const auto totals = task.accumulate({8 * step, 8}, std::nullopt);
      test::take_step(optimizer, 1, totals.terms);
      if (!evaluations) continue;
      const auto raw = task.evaluate(0, 1);
      optimizer.swap_average();
      EXPECT_NE(task.evaluate(0, 1)[0], raw[0]) << step;
      optimizer.swap_average();
      EXPECT_EQ(task.evaluate(0, 1)[0], raw[0]) << step;
    }
    return parameters.values().clone();
  };
  EXPECT_TRUE(torch::equal(weights(true), weights(false)));
}

}  // namespace
}  // namespace hydramix
