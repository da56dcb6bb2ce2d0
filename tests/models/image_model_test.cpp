// SPDX-License-Identifier: Apache-2.0
// The image model against convolution, its own parts, and the laws of stochastic depth.
#include "hydramix/image_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "hydramix/error.h"
#include "hydramix/weights.h"
#include "support/expect.h"
#include "support/models.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;
using test::tiny_image_model;

torch::Tensor image_pixels(int64_t count, int64_t size) {
  torch::manual_seed(3);
  return torch::randn({count, 3, size, size});
}

// The embedding and the output of every layer.
std::vector<torch::Tensor> observed(const ImageModel& model, const torch::Tensor& pixels) {
  std::vector<torch::Tensor> states;
  model->forward(pixels, {}, [&](const torch::Tensor& x) { states.push_back(x); });
  return states;
}

DropoutKey numbered(int64_t first, int64_t count, int64_t seed = 5) {
  return {seed, torch::arange(first, first + count, torch::kInt64)};
}

// The places of a grid of 4 that determine its value at `place`, and their weights: cubic
// convolution (Keys 1981) with a = -3/4, as image libraries have it. The border is repeated.
std::vector<std::pair<int64_t, double>> cubic_taps(double place) {
  constexpr double a = -0.75;
  const auto kernel = [](double d) {
    d = std::abs(d);
    return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  };
  std::vector<std::pair<int64_t, double>> taps;
  const auto below = static_cast<int64_t>(std::floor(place));
  for (int64_t k = below - 1; k <= below + 2; ++k)
    taps.emplace_back(std::clamp<int64_t>(k, 0, 3), kernel(place - static_cast<double>(k)));
  return taps;
}

TEST(ImageModel, EmbedsPatchesAsAStridedConvolutionDoes) {
  auto options = tiny_image_model("hydra");
  for (const int64_t patch : {1, 2, 4, 8}) {
    options.patch = patch;
    ImageModel model(options);
    model->eval();
    const auto pixels = image_pixels(2, 8);
    const auto weights = named_weights(*model);
    const auto kernel =
        weights.at("vit.embeddings.patch_embeddings.projection.weight").view({16, 3, patch, patch});
    const auto bias = weights.at("vit.embeddings.patch_embeddings.projection.bias");
    const auto expected =
        torch::conv2d(pixels, kernel, bias, /*stride=*/patch).flatten(2).transpose(1, 2);
    expect_close(observed(model, pixels)[0], expected, 1e-5, std::to_string(patch));
  }
}

TEST(ImageModel, PoolsTheMeanOrTheClassToken) {
  for (const std::string pooling : {"mean", "first", "last"}) {
    auto options = tiny_image_model("attention");
    options.pooling = pooling;
    options.positions = true;
    ImageModel model(options);
    model->eval();
    const auto pixels = image_pixels(3, 8);
    const auto states = observed(model, pixels);
    const int64_t length = pooling == "mean" ? 4 : 5;
    ASSERT_EQ(states.back().sizes(), (std::vector<int64_t>{3, length, 16})) << pooling;
    const auto weights = named_weights(*model);
    const auto normalised =
        torch::layer_norm(states.back(), {16}, weights.at("vit.encoder.norm.weight"),
                          weights.at("vit.encoder.norm.bias"), 1e-5);
    const auto row = pooling == "mean"    ? normalised.mean(1)
                     : pooling == "first" ? normalised.select(1, 0)
                                          : normalised.select(1, 4);
    expect_close(model->forward(pixels),
                 torch::linear(row, weights.at("classifier.weight"), weights.at("classifier.bias")),
                 1e-5, pooling);
    if (pooling == "mean") continue;
    // The token is the same for every image, apart from its position.
    const auto token = states[0].select(1, pooling == "first" ? 0 : 4);
    const auto position =
        weights.at("vit.embeddings.position_embeddings")[0][pooling == "first" ? 0 : 4];
    expect_close(token, (weights.at("vit.embeddings.cls_token")[0][0] + position).expand({3, 16}),
                 1e-6, pooling);
  }
}

TEST(ImageModel, LeavesALayerOutForSomeImagesAndScalesItForTheOthers) {
  auto options = tiny_image_model("hydra");
  options.stochastic_depth = 0.4;
  ImageModel model(options);
  const int64_t count = 2000;
  const auto pixels = image_pixels(1, 8).expand({count, 3, 8, 8});
  torch::NoGradGuard no_grad;
  model->eval();
  const auto whole = observed(model, pixels);
  model->train();
  std::vector<torch::Tensor> states;
  model->forward(pixels, numbered(0, count), [&](const torch::Tensor& x) { states.push_back(x); });
  EXPECT_TRUE(states[1].equal(whole[1])) << "the first layer is never left out";
  const auto added = whole[2] - whole[1];
  int64_t dropped = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto change = states[2][i] - states[1][i];
    if (change.abs().max().item<double>() == 0)
      ++dropped;
    else if (i < 20)
      expect_close(change, added[i] / 0.6, 1e-5, std::to_string(i));
  }
  // 4 standard deviations of the share: 4 sqrt(0.24 / 2000) = 0.044.
  EXPECT_NEAR(static_cast<double>(dropped) / count, 0.4, 0.044);
}

TEST(ImageModel, WhatIsLeftOutDependsOnSeedAndImageNumberOnly) {
  auto options = tiny_image_model("hydra");
  options.stochastic_depth = 0.5;
  options.mlp.kind = "gelu";
  options.mlp.width = 8;
  ImageModel model(options);
  model->train();
  torch::NoGradGuard no_grad;
  const auto pixels = image_pixels(8, 8);
  const auto together = model->forward(pixels, numbered(40, 8));
  for (int64_t i = 0; i < 8; i += 2)
    expect_close(model->forward(pixels.narrow(0, i, 2), numbered(40 + i, 2)),
                 together.narrow(0, i, 2), 1e-5, std::to_string(i));
  EXPECT_FALSE(model->forward(pixels, numbered(40, 8, /*seed=*/6)).allclose(together));
  EXPECT_FALSE(model->forward(pixels, numbered(48, 8)).allclose(together));
  EXPECT_THROW_WITH(model->forward(pixels), Error,
                    "encoder: dropout = 0.5 in training needs a number for each of the 8");
}

TEST(ImageModel, TakesEveryMixer) {
  for (const auto& name : mixer_names()) {
    auto options = tiny_image_model(name);
    auto& block = options.block;
    if (name == "mlp_mixer_nonlinear" || name == "fnet") {
      block.style = "bare";
      block.expand = 1;
    }
    options.pooling = "mean";
    ImageModel model(options);
    const auto logits = model->forward(image_pixels(2, 8), numbered(0, 2));
    logits.sum().backward();
    EXPECT_TRUE(torch::isfinite(logits).all().item<bool>()) << name;
    EXPECT_EQ(logits.sizes(), (std::vector<int64_t>{2, 3})) << name;
  }
}

TEST(ImageModel, GivesS4ndTheGridOfPatches) {
  auto options = tiny_image_model("s4nd");
  options.size = 12;
  ImageModel model(options);
  EXPECT_EQ(model->options().block.mixer_options.grid_width, 3);
}

TEST(ImageModel, InterpolatesPositionsOfAnotherGrid) {
  torch::manual_seed(2);
  const auto positions = torch::randn({1, 17, 2});
  EXPECT_TRUE(interpolated_positions(positions, 4, 4, "first").equal(positions));
  for (const std::string pooling : {"first", "last"}) {
    const auto larger = interpolated_positions(positions, 4, 6, pooling);
    ASSERT_EQ(larger.sizes(), (std::vector<int64_t>{1, 37, 2}));
    const int64_t token = pooling == "first" ? 0 : -1;
    EXPECT_TRUE(larger.select(1, token).equal(positions.select(1, token))) << pooling;
  }
  // Patch k of 6 has its centre at (k + 1/2) 4/6 - 1/2 on the grid of 4.
  const auto grid = torch::randn({4, 4}, torch::kFloat64);
  const auto finer = interpolated_positions(grid.view({1, 16, 1}), 4, 6, "mean").view({6, 6});
  for (int64_t y = 0; y < 6; ++y)
    for (int64_t x = 0; x < 6; ++x) {
      double expected = 0;
      for (const auto& [row, a] : cubic_taps((static_cast<double>(y) + 0.5) * 4 / 6 - 0.5))
        for (const auto& [column, b] : cubic_taps((static_cast<double>(x) + 0.5) * 4 / 6 - 0.5))
          expected += a * b * grid[row][column].item<double>();
      EXPECT_NEAR(finer[y][x].item<double>(), expected, 1e-12) << y << ", " << x;
    }
  EXPECT_THROW_WITH(interpolated_positions(positions, 5, 6, "first"), Error,
                    "17 positions; expected 26");
}

TEST(ImageModel, StartsFromAModelOfOtherClassesAndAnotherSize) {
  auto options = tiny_image_model("attention");
  options.positions = true;
  ImageModel pretrained(options);
  auto other = options;
  other.size = 16;
  other.classes = 7;
  ImageModel model(other);
  const auto head = named_weights(*model).at("classifier.weight").clone();
  model->take_weights(named_weights(*pretrained), options.grid());
  const auto theirs = named_weights(*pretrained), ours = named_weights(*model);
  EXPECT_TRUE(ours.at("classifier.weight").equal(head));
  EXPECT_TRUE(ours.at("vit.encoder.layer.0.layer.norm.weight")
                  .equal(theirs.at("vit.encoder.layer.0.layer.norm.weight")));
  EXPECT_TRUE(ours.at("vit.embeddings.position_embeddings")
                  .equal(interpolated_positions(theirs.at("vit.embeddings.position_embeddings"), 2,
                                                4, "mean")));
  // The same size and classes: every weight.
  ImageModel same(options);
  same->take_weights(named_weights(*pretrained), options.grid());
  const auto pixels = image_pixels(2, 8);
  EXPECT_TRUE(same->forward(pixels).equal(pretrained->forward(pixels)));
  other.patch = 2;
  ImageModel finer(other);
  EXPECT_THROW_WITH(finer->take_weights(named_weights(*pretrained), options.grid()), Error,
                    "patch_embeddings.projection.weight' has shape [16, 48], expected [16, 12]");
}

TEST(ImageModel, TokensAndPositionsDoNotDecay) {
  auto options = tiny_image_model("attention");
  options.positions = true;
  options.pooling = "first";
  std::set<std::string> decaying;
  for (const auto& [name, weight] : named_weights(*ImageModel(options)))
    if (decays(name, weight)) decaying.insert(name);
  EXPECT_EQ(decaying.count("vit.embeddings.cls_token"), 0u);
  EXPECT_EQ(decaying.count("vit.embeddings.position_embeddings"), 0u);
  EXPECT_EQ(decaying.count("vit.embeddings.patch_embeddings.projection.weight"), 1u);
  EXPECT_EQ(decaying.count("classifier.weight"), 1u);
}

TEST(ImageModel, RefusesOptionsThatContradictEachOther) {
  auto options = tiny_image_model("hydra");
  options.patch = 3;
  EXPECT_THROW_WITH(check_image_model(options), UsageError,
                    "model.patch: patches of 3 pixels do not fill an image of 8");
  options = tiny_image_model("semiseparable");
  options.pooling = "first";
  EXPECT_THROW_WITH(check_image_model(options), UsageError,
                    "a first token sees no patch through semiseparable, which is causal");
  options = tiny_image_model("s4nd");
  options.pooling = "last";
  EXPECT_THROW_WITH(check_image_model(options), UsageError, "no place in the grid of s4nd");
  options = tiny_image_model("dense");
  options.block.mixer_options.max_length = 3;
  EXPECT_THROW_WITH(check_image_model(options), UsageError,
                    "max_length: 3 is less than the 4 tokens of an image");
  options = tiny_image_model("hydra");
  options.classes = 0;
  EXPECT_THROW_WITH(ImageModel{options}, UsageError, "model.classes: is 0");
  ImageModel model(tiny_image_model("hydra"));
  EXPECT_THROW_WITH(model->forward(torch::zeros({1, 3, 8, 9})), Error,
                    "pixels must be (B, 3, 8, 8)");
}

TEST(ImageModel, TheCountIsThatOfTheBuiltModel) {
  auto options = tiny_image_model("attention");
  options.layers = 3;
  options.positions = true;
  options.pooling = "first";
  options.mlp.kind = "gelu";
  int64_t built = 0;
  for (const auto& p : ImageModel(options)->parameters()) built += p.numel();
  EXPECT_EQ(parameter_count(options), built);
}

}  // namespace
}  // namespace hydramix
