// SPDX-License-Identifier: Apache-2.0
// The block with `separate: true`: two whole blocks around a causal mixer, one for each direction.
#include "hydramix/bert.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "hydramix/weights.h"
#include "support/expect.h"
#include "support/models.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;
using test::expect_gradients;

BlockOptions separate_pair(const std::string& combine) {
  BlockOptions options;
  options.mixer = "bidirectional";
  options.separate = true;
  options.d_model = 8;
  options.headdim = 4;
  options.d_conv = 4;
  options.bias = true;
  options.mixer_options = {.d_state = 3, .groups = 2};
  options.mixer_options.combine = combine;
  return options;
}

// A pair in float64, and the two causal blocks that it is made of.
struct Pair {
  explicit Pair(const std::string& combine) : block(separate_pair(combine)) {
    block->to(torch::kFloat64);
    auto options = separate_pair(combine);
    options.mixer = "semiseparable";
    options.separate = false;
    for (const std::string name : {"forward.", "backward."}) {
      std::map<std::string, torch::Tensor> weights;
      for (const auto& [key, weight] : named_weights(*block))
        if (key.starts_with(name)) weights.emplace(key.substr(name.size()), weight.detach());
      Block alone(options);
      alone->to(torch::kFloat64);
      load_weights(*alone, weights);
      parts.push_back(alone);
    }
  }
  Block block;
  std::vector<Block> parts;
};

TEST(SeparateBlocks, AreTwoBlocksThatShareNothing) {
  torch::manual_seed(1);
  const auto u = torch::randn({2, 11, 8}, torch::kFloat64);
  for (const std::string combine : {"add", "mult", "concat"}) {
    const Pair pair(combine);
    const auto y_f = pair.parts[0]->forward(u);
    const auto y_b = pair.parts[1]->forward(u.flip({1})).flip({1});
    expect_close(pair.block->forward(u), combine == "mult" ? y_f * y_b : y_f + y_b, 1e-14, combine);
    int64_t count = 0, one = 0;
    for (const auto& p : pair.block->parameters()) count += p.numel();
    for (const auto& p : pair.parts[0]->parameters()) one += p.numel();
    EXPECT_EQ(count, 2 * one);
  }
}

TEST(SeparateBlocks, GiveASequenceTheSameAloneAndInABatch) {
  torch::manual_seed(2);
  const Pair pair("add");
  const auto u = torch::randn({1, 20, 8}, torch::kFloat64);
  const auto packed = pair.block->forward(u, Layout::packed(torch::tensor({0, 7, 8, 8, 20})));
  auto rows = torch::full({3, 15, 8}, std::nan(""), torch::kFloat64);
  auto mask = torch::zeros({3, 15}, torch::kBool);
  const std::vector<std::pair<int64_t, int64_t>> sequences{{0, 7}, {7, 1}, {8, 12}};
  for (int64_t s = 0; s < 3; ++s) {
    const auto [begin, length] = sequences[static_cast<std::size_t>(s)];
    expect_close(packed.narrow(1, begin, length), pair.block->forward(u.narrow(1, begin, length)),
                 1e-13, "packed");
    rows[s].narrow(0, s, length).copy_(u[0].narrow(0, begin, length));
    mask[s].narrow(0, s, length).fill_(true);
  }
  const auto padded = pair.block->forward(rows, Layout::padded(mask));
  EXPECT_EQ(padded.masked_select(~mask.unsqueeze(2)).count_nonzero().item<int64_t>(), 0);
  for (int64_t s = 0; s < 3; ++s) {
    const auto [begin, length] = sequences[static_cast<std::size_t>(s)];
    expect_close(padded[s].narrow(0, s, length), packed[0].narrow(0, begin, length), 1e-13,
                 "padded");
  }
}

TEST(SeparateBlocks, HaveGradients) {
  torch::manual_seed(3);
  const Pair pair("mult");
  auto u = torch::randn({2, 7, 8}, torch::kFloat64).requires_grad_();
  const auto layout =
      Layout::padded(torch::arange(7).expand({2, 7}) < torch::tensor({7, 4}).unsqueeze(1));
  const auto dy = torch::randn({2, 7, 8}, torch::kFloat64);
  std::vector<std::pair<std::string, torch::Tensor>> inputs{{"u", u}};
  for (const auto& p : pair.block->named_parameters()) inputs.emplace_back(p.key(), p.value());
  expect_gradients([&] { return (pair.block->forward(u, layout) * dy).sum(); }, inputs,
                   "separate blocks");
}

TEST(SeparateBlocks, MaterializeBothDirectionsInTheOrderOfTheSequence) {
  torch::manual_seed(4);
  const Pair pair("add");
  const auto u = torch::randn({1, 20, 8}, torch::kFloat64);
  const auto layout = Layout::packed(torch::tensor({0, 8, 20}));
  const auto M = pair.block->materialize(u, layout);  // (2, 2 H, 12, 12)
  ASSERT_EQ(M.sizes(), (std::vector<int64_t>{2, 8, 12, 12}));
  const auto second = u.narrow(1, 8, 12);
  expect_close(M[1].narrow(0, 0, 4), pair.parts[0]->materialize(second)[0], 1e-13, "forward");
  expect_close(M[1].narrow(0, 4, 4), pair.parts[1]->materialize(second.flip({1}))[0].flip({1, 2}),
               1e-13, "backward");
  const auto first = pair.parts[1]->materialize(u.narrow(1, 0, 8).flip({1}))[0].flip({1, 2});
  expect_close(M[0].narrow(0, 4, 4).narrow(1, 0, 8).narrow(2, 0, 8), first, 1e-13, "padded");
  EXPECT_EQ(M[0].narrow(1, 8, 4).count_nonzero().item<int64_t>(), 0);
}

TEST(SeparateBlocks, RoundBfloat16Once) {
  Block block(separate_pair("mult"));
  const auto u = torch::randn({2, 9, 8}).to(torch::kBFloat16);
  EXPECT_TRUE(
      torch::equal(block->forward(u), block->forward(u.to(torch::kFloat32)).to(torch::kBFloat16)));
}

TEST(SeparateBlocks, RefuseWhatHasNoTwoDirections) {
  EXPECT_THROW_WITH(Block(separate_pair("quasi")), UsageError,
                    "Choose combine add, mult or concat");
  auto options = separate_pair("add");
  options.mixer = "hydra";
  EXPECT_THROW_WITH(Block{options}, UsageError, "got mixer 'hydra'");
}

// Options, weights and outputs are the same after a save and a load.
TEST(SeparateBlocks, AndBidirectionalMixersSurviveAModelFolder) {
  const auto ids = torch::randint(1, 30, {1, 9}, torch::kInt64);
  for (const bool separate : {true, false})
    for (const bool own : {true, false}) {
      auto options = test::tiny_bert("bidirectional");
      options.block.separate = separate;
      options.block.mixer_options.own_weights = own;
      options.block.mixer_options.combine = separate ? "mult" : "quasi";
      options.block.mixer_options.skip = own;
      const test::TemporaryFolder folder;
      torch::manual_seed(5);
      BertForMaskedLM model(options);
      save_model(folder.path(), model);
      auto loaded = load_model(folder.path());
      model->eval();
      loaded->eval();
      EXPECT_EQ(loaded->options().block.separate, separate);
      EXPECT_EQ(loaded->options().block.mixer_options.own_weights, own);
      EXPECT_TRUE(torch::equal(loaded->encode(ids, {}), model->encode(ids, {})));
    }
}

}  // namespace
}  // namespace hydramix
