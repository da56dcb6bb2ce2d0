// SPDX-License-Identifier: Apache-2.0
// Image classification as a task, on images that are functions of their number.
#include "train/image_training.h"

#include <cmath>

#include "support/expect.h"
#include "support/images.h"
#include "support/models.h"
#include "support/tensors.h"
#include "train/image_report.h"

namespace hydramix {
namespace {

using test::expect_close;

constexpr int64_t kSide = 8, kPixels = 3 * kSide * kSide;

// Noise, of class number mod 3.
ImageBatch noise_images(int64_t first, int64_t count) {
  return test::noise_images(first, count, kPixels, /*classes=*/3);
}

ImageTrainingSettings noise_settings() {
  ImageTrainingSettings settings;
  settings.training = noise_images;
  settings.validation = noise_images;
  settings.validation_images = 23;
  settings.augment.size = kSide;
  settings.batch = 8;
  settings.micro_batch = 4;
  settings.seed = 3;
  return settings;
}

ImageModel noise_model(double stochastic_depth = 0) {
  torch::manual_seed(4);
  auto options = test::tiny_image_model("hydra");
  options.stochastic_depth = stochastic_depth;
  return ImageModel(options);
}

torch::Tensor gradient_of(ImageModel& model) {
  std::vector<torch::Tensor> all;
  for (auto& p : model->parameters()) {
    all.push_back(p.grad().flatten().clone());
    p.mutable_grad() = torch::Tensor();
  }
  return torch::cat(all);
}

std::vector<float> pixel_values(const ImageBatch& batch) {
  return {batch.pixels.begin(), batch.pixels.end()};
}

torch::Tensor pixels_of(const ImageBatch& batch) {
  return torch::tensor(pixel_values(batch)).view({-1, 3, kSide, kSide});
}

TEST(ImageTraining, MixesAsTheDefinitionDoes) {
  AugmentOptions augment;
  augment.size = kSide;
  const auto batch = noise_images(0, 6);
  int kinds = 0;
  for (int64_t step = 0; step < 12; ++step) {
    const auto mix = draw_mix(augment, 5, step);
    auto expected = pixel_values(batch);
    mix_pixels(mix, expected, 6, kSide);
    expect_close(mixed(pixels_of(batch), mix), torch::tensor(expected).view({6, 3, kSide, kSide}),
                 1e-6, std::to_string(step));
    kinds |= mix.kind == MixKind::kMixup ? 1 : 2;
  }
  EXPECT_EQ(kinds, 3) << "both kinds must occur";
}

TEST(ImageTraining, TheLossIsTheCrossEntropyWithMixedAndSmoothedTargets) {
  auto model = noise_model();
  const auto settings = noise_settings();
  ImageTraining task(model, settings);
  for (const int64_t step : {0, 1, 2}) {
    const auto totals = task.accumulate({8 * step, 8}, std::nullopt);
    const auto images = noise_images(8 * step, 8);
    const auto mix = draw_mix(settings.augment, 3, step);
    auto pixels = pixel_values(images);
    mix_pixels(mix, pixels, 8, kSide);
    const auto targets =
        torch::tensor(mixed_targets(mix, images.labels, 3, settings.augment.smoothing))
            .view({8, 3});
    const auto logits = model->forward(torch::tensor(pixels).view({8, 3, kSide, kSide}));
    const auto loss = -(targets * logits.log_softmax(1)).sum();
    EXPECT_NEAR(totals.loss(), loss.item<double>(), 1e-4);
    EXPECT_EQ(totals.terms, 8);
    EXPECT_EQ(totals.tokens, 8 * 4);
    EXPECT_EQ(totals.sums[1].item<double>(),
              (logits.argmax(1) == targets.argmax(1)).sum().item<double>());
    const auto gradient = gradient_of(model);
    loss.backward();
    expect_close(gradient, gradient_of(model), 1e-4, std::to_string(step));
  }
}

TEST(ImageTraining, ABatchIsTheSumOfItsParts) {
  auto model = noise_model(/*stochastic_depth=*/0.5);
  ImageTraining task(model, noise_settings());
  const auto whole = task.accumulate({8, 8}, std::nullopt);
  const auto gradient = gradient_of(model);
  // In parts, prefetched and not, as ranks and micro-batches share a batch.
  auto parts = task.accumulate({8, 2}, Slice{10, 4});
  parts.add(task.accumulate({10, 4}, Slice{100, 2}));
  parts.add(task.accumulate({14, 2}, std::nullopt));
  EXPECT_NEAR(parts.loss(), whole.loss(), 1e-4);
  expect_close(gradient_of(model), gradient, 1e-4, "gradient");
}

TEST(ImageTraining, AnEvaluationCountsTheAnswersForEveryClass) {
  auto model = noise_model();
  auto settings = noise_settings();
  settings.validation = [](int64_t first, int64_t count) {
    auto batch = noise_images(first, count);
    if (first <= 5 && 5 < first + count) batch.labels[static_cast<std::size_t>(5 - first)] = -1;
    return batch;
  };
  ImageTraining task(model, settings);
  const auto alone = task.evaluate(0, 1);
  auto together = task.evaluate(0, 3);
  for (const int64_t rank : {1, 2}) {
    const auto share = task.evaluate(rank, 3);
    for (std::size_t i = 0; i < share.size(); ++i) together[i] += share[i];
  }
  ASSERT_EQ(alone.size(), 4u + 9u);
  EXPECT_NEAR(together[0], alone[0], 1e-9);
  for (std::size_t i = 1; i < alone.size(); ++i) EXPECT_EQ(together[i], alone[i]) << i;

  torch::NoGradGuard no_grad;
  model->eval();
  std::vector<double> confusion(9);
  double loss = 0, right = 0;
  for (int64_t n = 0; n < 23; ++n) {
    if (n == 5) continue;
    const auto p = model->forward(pixels_of(noise_images(n, 1))).log_softmax(1)[0];
    const auto answer = p.argmax().item<int64_t>();
    loss -= p[n % 3].item<double>();
    right += answer == n % 3 ? 1 : 0;
    confusion[static_cast<std::size_t>(n % 3 * 3 + answer)] += 1;
  }
  task.take_sums(alone, /*average=*/false);
  EXPECT_EQ(task.counts(false).confusion, confusion);
  EXPECT_TRUE(task.counts(true).confusion.empty());
  const auto summary = task.summary(alone);
  EXPECT_NEAR(summary["loss"].get<double>(), loss / 22, 1e-5);
  EXPECT_EQ(summary["top1"], right / 22);
  EXPECT_EQ(summary["top5"], 1.0) << "there are three classes";
  EXPECT_EQ(summary["images"], 22.0);
}

TEST(ImageTraining, NamesTheLayerThatIsNotFinite) {
  auto model = noise_model();
  auto settings = noise_settings();
  settings.name = [](int64_t number) { return "image-" + std::to_string(number); };
  ImageTraining task(model, settings);
  EXPECT_NE(task.find_fault({8, 2}).find("every layer's output is finite, the gradient is not"),
            std::string::npos);
  settings.training = [](int64_t first, int64_t count) {
    auto batch = noise_images(first, count);
    batch.pixels[0] = std::nanf("");
    return batch;
  };
  ImageTraining faulty(model, settings);
  EXPECT_EQ(faulty.find_fault({8, 2}),
            "the embedding's output is not finite, for images 8 to 9 (image-8, image-9).");
}

TEST(ImageReport, TablesAreThoseOfTheCounts) {
  const std::vector<std::string> classes = {"cat", "dog", "owl"};
  const ImageCounts counts{0, 7, 4, 7, {3, 1, 0, 2, 1, 0, 0, 0, 0}};
  const ImageCounts average{0, 7, 5, 7, {4, 0, 0, 2, 1, 0, 0, 0, 0}};
  EXPECT_EQ(confusion_table(classes, counts),
            "class\tcat\tdog\towl\ncat\t3\t1\t0\ndog\t2\t1\t0\nowl\t0\t0\t0\n");
  EXPECT_EQ(class_table(classes, counts, {}),
            "class\timages\ttop1\ttaken_for\tshare\n"
            "cat\t4\t0.7500\tdog\t0.2500\ndog\t3\t0.3333\tcat\t0.6667\nowl\t0\t\t\t\n");
  EXPECT_EQ(class_table(classes, counts, average),
            "class\timages\ttop1\taverage_top1\ttaken_for\tshare\n"
            "cat\t4\t0.7500\t1.0000\tdog\t0.2500\ndog\t3\t0.3333\t0.3333\tcat\t0.6667\n"
            "owl\t0\t\t\t\t\n");
}

}  // namespace
}  // namespace hydramix
