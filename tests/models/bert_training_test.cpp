// SPDX-License-Identifier: Apache-2.0
// The encoder as pretraining uses it: packed from embedding to loss, with every option.
#include <cmath>

#include "hydramix/bert.h"
#include "hydramix/error.h"
#include "hydramix/weights.h"
#include "ops/projection.h"
#include "support/expect.h"
#include "support/memory.h"
#include "support/models.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;
using test::tiny_bert;

BertOptions with_everything(const std::string& norm, const std::string& mlp) {
  auto options = tiny_bert("hydra");
  options.norm = norm;
  options.positions = 16;
  options.mlp.kind = mlp;
  options.mlp.width = 20;
  options.mlp.blocks = 2;
  return options;
}

// Moves weights away from their initial zeros, so that every term counts.
BertForMaskedLM disturbed(const BertOptions& options, uint64_t seed) {
  torch::manual_seed(seed);
  BertForMaskedLM model(options);
  model->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  for (auto& p : model->parameters()) p.add_(0.2 * torch::randn_like(p));
  return model;
}

const std::vector<int64_t> kOffsets = {0, 7, 7, 8, 21, 33};
Layout packing() { return Layout::packed(torch::tensor(kOffsets)); }
torch::Tensor some_ids() { return torch::randint(30, {1, 33}, torch::kInt64); }

TEST(BertTraining, ASequenceGivesInAPackWhatItGivesAlone) {
  for (const std::string norm : {"post", "pre"})
    for (const std::string mlp : {"none", "gelu", "glu"}) {
      const auto model = disturbed(with_everything(norm, mlp), 1);
      const auto ids = some_ids(), types = torch::randint(2, {1, 33}, torch::kInt64);
      const auto packed = model->encode(ids, types, packing());
      for (std::size_t s = 0; s + 1 < kOffsets.size(); ++s) {
        const int64_t begin = kOffsets[s], L = kOffsets[s + 1] - begin;
        if (L == 0) continue;
        const auto alone = model->encode(ids.narrow(1, begin, L), types.narrow(1, begin, L));
        expect_close(packed.narrow(1, begin, L), alone, 1e-12, norm + " " + mlp);
      }
      // And padded, on either side.
      const auto two = torch::stack({ids[0].narrow(0, 8, 13), ids[0].narrow(0, 20, 13)});
      const auto mask = torch::stack({torch::arange(13) < 13, torch::arange(13) > 0});
      const auto padded = model->encode(two, {}, Layout::padded(mask));
      const auto alone = model->encode(ids.narrow(1, 21, 12), {});
      expect_close(padded.narrow(0, 1, 1).narrow(1, 1, 12), alone, 1e-12, "padded " + norm);
    }
}

TEST(BertTraining, PositionsAreThoseOfTheSequence) {
  const auto model = disturbed(with_everything("post", "none"), 2);
  const auto ids = torch::full({1, 6}, 3, torch::kInt64);
  const auto full = model->encode(ids, {});
  EXPECT_FALSE(torch::allclose(full[0][0], full[0][5])) << "places of equal words differ";
  EXPECT_THROW_WITH(model->encode(torch::zeros({1, 17}, torch::kInt64), {}), Error,
                    "a sequence of length 17 is longer than positions = 16");
}

TEST(BertTraining, GradientsAreThoseOfFiniteDifferences) {
  for (const std::string norm : {"post", "pre"})
    for (const std::string mlp : {"none", "gelu", "glu"}) {
      auto options = with_everything(norm, mlp);
      options.dropout = 0.2;
      options.output_dropout = 0.3;
      const auto model = disturbed(options, 3);
      const auto ids = some_ids();
      const auto places = torch::tensor({0, 3, 7, 12, 32});
      const auto targets = torch::tensor({5, 0, 29, 11, 5});
      const DropoutKey key{9, torch::tensor({4, 5, 6, 7})};
      std::vector<std::pair<std::string, torch::Tensor>> inputs;
      for (const auto& [name, weight] : named_weights(*model))
        // One layer represents both.
        if (name.find("layer.1.") == std::string::npos) inputs.emplace_back(name, weight);
      test::expect_gradients(
          [&] {
            return model->masked_loss(model->encode(ids, {}, packing(), key), places, targets, 2)
                .sum;
          },
          inputs, norm + " " + mlp);
    }
}

TEST(BertTraining, MaskedLossIsThePlainLossOfTheMaskedPlaces) {
  const auto model = disturbed(with_everything("post", "gelu"), 4);
  const auto ids = some_ids();
  const auto places = torch::tensor({2, 9, 30, 31}), targets = torch::tensor({1, 29, 7, 8});
  const auto hidden = model->encode(ids, {}, packing());
  const auto logits = model->predict(hidden);
  const auto labels = torch::zeros({1, 33}, torch::kInt64).index_put_({0, places}, targets);
  const auto plain = BertForMaskedLMImpl::loss(logits, labels) * 4;
  const auto result = model->masked_loss(hidden, places, targets, 3);
  expect_close(result.sum, plain, 1e-13, "sum");
  EXPECT_EQ(result.correct.item<int64_t>(),
            (logits.argmax(-1)[0].index_select(0, places) == targets).sum().item<int64_t>());
  const auto parameters = model->parameters();
  const auto ours = torch::autograd::grad({result.sum}, parameters, {}, true, false, true);
  const auto theirs = torch::autograd::grad({plain}, parameters, {}, true, false, true);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    expect_close(ours[i], theirs[i], 1e-11, concat("gradient of ", parameters[i].sizes()));
  // Batches are also counted over all places.
  const auto batch = torch::stack({hidden[0], hidden[0]});
  expect_close(model->masked_loss(batch, places + 33, targets).sum, result.sum, 1e-13, "batch");
}

TEST(BertTraining, TheHeadsMemoryDoesNotGrowWithTheNumberOfWords) {
  auto options = tiny_bert("hydra");
  options.vocab = 3000;
  const BertForMaskedLM model(options);
  const auto peak = [&](int64_t m) {
    auto hidden = torch::randn({1, m, 16}).requires_grad_();
    const auto places = torch::arange(m), targets = torch::randint(3000, {m}, torch::kInt64);
    const auto memory =
        test::count_memory([&] { model->masked_loss(hidden, places, targets, 8).sum.backward(); });
    return memory->peak();
  };
  peak(8);  // from now on the weights have gradients
  const int64_t one = peak(8), row = 16 * 4;
  // A masked place needs a few rows of channels, but no row of logits, which is 187 times as wide.
  EXPECT_LE(peak(1008) - one, 1000 * row * 16);
}

TEST(BertTraining, RecomputingChangesNoBitOfTheGradients) {
  for (const std::string mixer : {"hydra", "attention_dd", "cauchy_dd"})
    for (const std::string norm : {"post", "pre"}) {
      auto options = with_everything(norm, "glu");
      options.block.mixer = mixer;
      options.block.mixer_options.dropout = 0.2;
      options.dropout = 0.1;
      options.output_dropout = 0.3;
      torch::manual_seed(5);
      BertForMaskedLM saving(options);
      options.recompute = true;
      BertForMaskedLM recomputing(options);
      load_weights(*recomputing, named_weights(*saving));
      const auto ids = some_ids();
      const auto places = torch::tensor({2, 9, 30}), targets = torch::tensor({1, 29, 7});
      const DropoutKey key{1, torch::tensor({0, 1, 2, 3})};
      for (int step = 0; step < 2; ++step)  // the second adds to existing gradients
        for (const auto& model : {saving, recomputing})
          model->masked_loss(model->encode(ids, {}, packing(), key), places, targets)
              .sum.backward();
      const auto gradients = named_weights(*recomputing);
      for (const auto& [name, weight] : named_weights(*saving)) {
        ASSERT_EQ(weight.grad().defined(), gradients.at(name).grad().defined()) << name;
        if (!weight.grad().defined()) continue;
        EXPECT_TRUE(torch::equal(weight.grad(), gradients.at(name).grad())) << mixer << name;
      }
    }
}

TEST(BertTraining, RecomputingKeepsALayersInputAlone) {
  auto options = tiny_bert("hydra");
  options.layers = 6;
  const auto kept_by = [&](bool recompute) {
    options.recompute = recompute;
    const BertForMaskedLM model(options);
    const auto ids = torch::randint(30, {1, 256}, torch::kInt64);
    torch::Tensor hidden;
    return test::count_memory([&] { hidden = model->encode(ids, {}); })->now();
  };
  const int64_t input = 4 * 256 * 16;
  // A layer's input is the output of the previous one. Besides these, the embedding saves tensors.
  EXPECT_LE(kept_by(true), (6 + 6) * input);
  EXPECT_GE(kept_by(false), 6 * 6 * input) << "or the test shows nothing";
}

// Encodes a batch, and its last two sequences alone, as another rank would have them; expects the
// same for these two. Returns the batch.
torch::Tensor encoded_whole_and_split(const BertForMaskedLM& model) {
  const auto ids = some_ids();
  const auto whole = model->encode(ids, {}, packing(), {17, torch::tensor({100, 101, 102, 103})});
  const auto part =
      model->encode(ids.narrow(1, 8, 25), {}, Layout::packed(torch::tensor({0, 13, 25})),
                    {17, torch::tensor({102, 103})});
  expect_close(whole.narrow(1, 8, 25), part, 1e-12, "split");
  return whole;
}

TEST(BertTraining, DropoutDoesNotDependOnTheBatch) {
  auto options = with_everything("post", "none");
  options.dropout = 0.5;
  auto model = disturbed(options, 6);
  const auto ids = some_ids();
  const auto whole = encoded_whole_and_split(model);
  const auto other = model->encode(ids, {}, packing(), {18, torch::tensor({100, 101, 102, 103})});
  EXPECT_GT(test::relative_error(other, whole), 1e-2) << "the seed counts";
  EXPECT_THROW_WITH(
      model->encode(ids, {}, packing()), Error,
      "needs a number for each of the 4 sequences, (S) int64; got an undefined tensor");
  EXPECT_THROW_WITH(model->encode(ids, {}, packing(), {1, torch::tensor({1, 2, 3})}), Error,
                    "got shape [3] of long");
  model->eval();
  const auto still = model->encode(ids, {}, packing());
  EXPECT_TRUE(
      torch::equal(still, model->encode(ids, {}, packing(), {1, torch::tensor({1, 2, 3, 4})})));
  EXPECT_GT(test::relative_error(still, whole), 1e-2);
}

TEST(BertTraining, OutputDropoutDoesNotDependOnTheBatch) {
  for (const std::string norm : {"post", "pre"}) {
    auto options = with_everything(norm, "gelu");
    options.output_dropout = 0.5;
    auto model = disturbed(options, 10);
    const auto ids = some_ids();
    const auto whole = encoded_whole_and_split(model);
    const auto other = model->encode(ids, {}, packing(), {18, torch::tensor({100, 101, 102, 103})});
    EXPECT_GT(test::relative_error(other, whole), 1e-2) << "the seed counts";
    EXPECT_THROW_WITH(
        model->encode(ids, {}, packing()), Error,
        "encoder: dropout = 0.5 in training needs a number for each of the 4 sequences");
    model->eval();
    EXPECT_GT(test::relative_error(model->encode(ids, {}, packing()), whole), 1e-2);
  }
}

TEST(BertTraining, AttentionDropoutDiffersBetweenLayers) {
  auto options = tiny_bert("attention");
  options.block.mixer_options.dropout = 0.4;
  const auto model = disturbed(options, 8);
  const auto ids = some_ids();
  const auto numbers = torch::tensor({100, 101, 102, 103});
  EXPECT_THROW_WITH(model->encode(ids, {}, packing()), Error,
                    "attention: dropout = 0.4 in training needs a number for each of the 4");
  std::vector<torch::Tensor> x;
  model->encode(ids, {}, packing(), {17, numbers},
                [&](const torch::Tensor& layer) { x.push_back(layer); });
  ASSERT_EQ(x.size(), 3u);
  const auto modules = model->named_modules();
  for (int64_t i = 0; i < 2; ++i) {
    const auto layer = concat("bert.encoder.layer.", i, ".layer.");
    auto* block = modules[layer + "mixer"]->as<BlockImpl>();
    auto* norm = modules[layer + "norm"]->as<torch::nn::LayerNormImpl>();
    const auto with_key_of = [&](int64_t number) {
      return norm->forward(x[i] + block->forward(x[i], packing(), {17, numbers, number}));
    };
    expect_close(x[i + 1], with_key_of(i), 1e-12, concat("layer ", i));
    EXPECT_GT(test::relative_error(x[i + 1], with_key_of(1 - i)), 1e-3);
  }
}

TEST(BertTraining, AttentionDropoutDoesNotDependOnTheBatch) {
  auto options = tiny_bert("attention");
  options.block.style = "plain";
  options.block.mixer_options.dropout = 0.5;
  auto model = disturbed(options, 9);
  const auto ids = some_ids();
  const auto whole = encoded_whole_and_split(model);
  model->eval();
  EXPECT_GT(test::relative_error(model->encode(ids, {}, packing()), whole), 1e-2);
}

// Runs on a GPU only, where the backward pass has its own thread.
TEST(BertTraining, TrainsInBfloat16OnAGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  auto options = with_everything("pre", "glu");
  options.dropout = 0.1;
  const auto places = torch::tensor({2, 9, 30}), targets = torch::tensor({1, 29, 7});
  const auto ids = some_ids();
  const auto gradients = [&](torch::Device device, bool recompute, torch::ScalarType precision) {
    options.recompute = recompute;
    torch::manual_seed(7);
    BertForMaskedLM model(options);
    model->to(device);
    model->set_precision(precision);
    const DropoutKey key{1, torch::tensor({0, 1, 2, 3})};
    model
        ->masked_loss(model->encode(ids.to(device), {}, packing(), key), places.to(device),
                      targets.to(device))
        .sum.backward();
    std::vector<torch::Tensor> all;
    for (const auto& [name, weight] : named_weights(*model))
      if (weight.grad().defined()) all.push_back(weight.grad().flatten().cpu());
    return torch::cat(all);
  };
  const auto cpu = gradients(torch::kCPU, false, torch::kFloat32);
  expect_close(gradients(torch::kCUDA, false, torch::kFloat32), cpu, 1e-3, "float32");
  const auto bfloat16 = gradients(torch::kCUDA, false, torch::kBFloat16);
  expect_close(bfloat16, cpu, 0.1, "bfloat16");
  EXPECT_GT(test::relative_error(bfloat16, cpu), 1e-4) << "it was not bfloat16";
  expect_close(gradients(torch::kCUDA, true, torch::kBFloat16), bfloat16, 1e-5, "recomputed");
}

TEST(BertTraining, StartsAsBertDoes) {
  torch::manual_seed(8);
  auto options = tiny_bert("hydra");
  options.vocab = 4000;
  options.positions = 300;
  options.mlp = {.kind = "gelu", .width = 64};
  options.pooler = true;
  const BertForMaskedLM model(options);
  int64_t normal = 0;
  for (const auto& [name, weight] : named_weights(*model)) {
    if (name.ends_with("LayerNorm.weight") || name.ends_with("norm.weight"))
      EXPECT_TRUE(torch::equal(weight, torch::ones_like(weight))) << name;
    else if (name.ends_with(".bias") && name.find("conv1d") == std::string::npos)
      EXPECT_EQ(weight.count_nonzero().item<int64_t>(), 0) << name;
    else if (weight.dim() == 2) {
      ++normal;
      const double n = static_cast<double>(weight.numel());
      // Six standard deviations of mean and variance.
      EXPECT_NEAR(weight.mean().item<double>(), 0, 6 * 0.02 / std::sqrt(n)) << name;
      EXPECT_NEAR(weight.var().item<double>() / 4e-4, 1, 6 * std::sqrt(2 / n)) << name;
    }
  }
  // 3 embeddings, 2 layers of in_proj, out_proj, fc_D, wi and wo, pooler, transform.
  EXPECT_EQ(normal, 3 + 2 * 5 + 2);
  // [PAD] has an embedding like any other token.
  EXPECT_GT(named_weights(*model)
                .at("bert.embeddings.word_embeddings.weight")[0]
                .abs()
                .sum()
                .item<double>(),
            0);
  torch::manual_seed(8);
  const BertForMaskedLM again(options);
  const auto weights = named_weights(*again);
  for (const auto& [name, weight] : named_weights(*model))
    EXPECT_TRUE(torch::equal(weight, weights.at(name))) << name;
}

TEST(BertTraining, BadInputIsNamed) {
  const BertForMaskedLM model(tiny_bert("hydra"));
  const auto hidden = torch::zeros({1, 5, 16}), two = torch::tensor({0, 4});
  EXPECT_THROW_WITH(model->masked_loss(hidden[0], two, two), Error, "must be (B, L, d_model)");
  EXPECT_THROW_WITH(model->masked_loss(hidden, two, torch::tensor({1})), Error,
                    "2 positions and 1 targets");
  EXPECT_THROW_WITH(model->masked_loss(hidden, two + 1, two), Error,
                    "positions must be in [0, 4]; got 5");
  EXPECT_THROW_WITH(model->masked_loss(hidden, two, two + 26), Error,
                    "targets must be in [0, 29]; got 30");
  EXPECT_THROW_WITH(model->masked_loss(hidden, two.to(torch::kFloat32), two), Error,
                    "positions must be (m) int64");
  EXPECT_THROW_WITH(model->check_ids(torch::full({1, 2}, 30, torch::kInt64), {}), Error, "got 30");
  EXPECT_THROW_WITH(
      model->encode(torch::zeros({1, 5}, torch::kInt64), {}, Layout::packed(torch::tensor({0, 4}))),
      Error, "bert: ");
  auto options = tiny_bert("hydra");
  options.norm = "middle";
  EXPECT_THROW_WITH(BertForMaskedLM{options}, UsageError, "norm");
  options = tiny_bert("hydra");
  options.mlp = {.kind = "gelu", .width = 9, .blocks = 2};
  EXPECT_THROW_WITH(BertForMaskedLM{options}, UsageError,
                    "blocks = 2 does not divide d_model = 16 and width = 9");
}

}  // namespace
}  // namespace hydramix
