// SPDX-License-Identifier: Apache-2.0
#include "hydramix/block.h"

#include "hydramix/error.h"
#include "support/expect.h"
#include "support/memory.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;

BlockOptions small(const std::string& mixer) {
  BlockOptions options;
  options.mixer = mixer;
  options.d_model = 8;
  options.headdim = 4;
  options.mixer_options = {.qk_dim = 2, .d_state = 3, .groups = 2, .max_length = 32};
  return options;
}

class AnyBlock : public ::testing::TestWithParam<std::string> {};

TEST_P(AnyBlock, KeepsTheShapeForEveryLengthAndConvolutionWidth) {
  for (const int64_t d_conv : {1, 2, 4, 7, 9})
    for (const int64_t L : {1, 2, 5, 32}) {
      auto options = small(GetParam());
      options.d_conv = d_conv;
      Block block(options);
      const auto y = block->forward(torch::randn({2, L, 8}));
      EXPECT_EQ(y.sizes(), (std::vector<int64_t>{2, L, 8}));
      EXPECT_TRUE(torch::isfinite(y).all().item<bool>());
    }
}

TEST_P(AnyBlock, Bfloat16InGivesBfloat16Out) {
  Block block(small(GetParam()));
  const auto u = torch::randn({2, 9, 8}).to(torch::kBFloat16);
  const auto y = block->forward(u);
  ASSERT_EQ(y.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(torch::equal(y, block->forward(u.to(torch::kFloat32)).to(torch::kBFloat16)));
}

TEST_P(AnyBlock, TakesNonContiguousInput) {
  Block block(small(GetParam()));
  block->to(torch::kFloat64);
  const auto u = torch::randn({8, 9, 2}, torch::kFloat64).permute({2, 1, 0});
  expect_close(block->forward(u), block->forward(u.contiguous()), 1e-13, GetParam());
}

TEST_P(AnyBlock, CausalMixersMakeCausalBlocks) {
  Block block(small(GetParam()));
  block->to(torch::kFloat64);
  const auto u = torch::randn({1, 20, 8}, torch::kFloat64);
  auto changed = u.clone();
  changed.narrow(1, 12, 8).add_(1);
  const bool same =
      torch::equal(block->forward(u).narrow(1, 0, 12), block->forward(changed).narrow(1, 0, 12));
  EXPECT_EQ(same, mixer_info(GetParam()).causal);
}

// The block written with LibTorch's own functions and the matrix of materialize().
TEST_P(AnyBlock, AppliesTheMatrixThatItMaterializes) {
  if (!mixer_info(GetParam()).linear) GTEST_SKIP() << "this mixer is no matrix";
  torch::manual_seed(4);
  auto options = small(GetParam());
  options.d_conv = 5;
  options.bias = true;
  Block block(options);
  block->to(torch::kFloat64);
  const auto weights = block->named_parameters();
  const auto u = torch::randn({2, 9, 8}, torch::kFloat64);
  const int64_t d_inner = 16, convolved = weights["conv1d.weight"].size(0);
  const auto w = torch::linear(u, weights["in_proj.weight"], weights["in_proj.bias"]);
  const int64_t reach_back = mixer_info(GetParam()).causal ? 4 : 2;
  const auto padded = torch::constant_pad_nd(w.narrow(2, d_inner, convolved).transpose(1, 2),
                                             {reach_back, 4 - reach_back});
  const auto conv =
      torch::conv1d(padded, weights["conv1d.weight"], weights["conv1d.bias"],
                    /*stride=*/torch::IntArrayRef{1}, /*padding=*/torch::IntArrayRef{0},
                    /*dilation=*/torch::IntArrayRef{1}, convolved);
  const auto x = torch::silu(conv.narrow(1, 0, d_inner)).transpose(1, 2).reshape({2, 9, 4, 4});
  const auto y = block->mixer().combine(dense_apply(block->materialize(u), x)).flatten(2);
  const int64_t copies = y.size(2) / d_inner;
  const auto gate = torch::silu(w.narrow(2, 0, d_inner)).repeat({1, 1, copies});
  const auto normed = y / (y.pow(2).mean(-1, true) + 1e-5).sqrt() * weights["norm.weight"] * gate;
  expect_close(block->forward(u),
               torch::linear(normed, weights["out_proj.weight"], weights["out_proj.bias"]), 1e-12,
               GetParam());
}

TEST_P(AnyBlock, ABatchWithoutTokensHasZeroGradients) {
  Block block(small(GetParam()));
  auto u = torch::randn({2, 6, 8}).requires_grad_();
  const auto y = block->forward(u, Layout::padded(torch::zeros({2, 6}, torch::kBool)));
  y.sum().backward();
  EXPECT_EQ(y.count_nonzero().item<int64_t>(), 0);
  EXPECT_EQ(u.grad().count_nonzero().item<int64_t>(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, AnyBlock, ::testing::ValuesIn(mixer_names()), test::parameter_name);

TEST(Block, BadOptionsAreNamed) {
  auto options = small("hydra");
  options.headdim = 5;
  EXPECT_THROW_WITH(Block{options}, UsageError,
                    "d_inner = expand d_model = 16 is not a multiple of headdim = 5");
  options = small("hydra");
  options.expand = 1.3;
  EXPECT_THROW_WITH(Block{options}, UsageError, "not a whole number of channels");
  options = small("hydraa");
  EXPECT_THROW_WITH(Block{options}, UsageError, "Did you mean 'hydra'?");
  options = small("hydra");
  options.d_conv = 0;
  EXPECT_THROW_WITH(Block{options}, UsageError, "d_conv");
}

TEST(Block, BadInputIsNamed) {
  Block block(small("hydra"));
  EXPECT_THROW_WITH(block->forward(torch::randn({2, 9, 7})), Error,
                    "u must be (B, L, d_model) with d_model = 8; got shape [2, 9, 7]");
  EXPECT_THROW_WITH(block->forward(torch::randn({9, 8})), Error, "got shape [9, 8]");
  EXPECT_THROW_WITH(block->forward({}), Error, "undefined");
  EXPECT_THROW_WITH(block->forward(torch::ones({2, 9, 8}, torch::kInt64)), Error, "got long");
  EXPECT_THROW_WITH(
      block->forward(torch::randn({2, 9, 8}), Layout::padded(torch::eye(2).to(torch::kBool))),
      Error, "the layout describes (B, L) = (2, 2)");
  {
    torch::NoGradGuard no_grad;
    auto bias = block->named_parameters()["conv1d.bias"];
    bias[3] = INFINITY;
    EXPECT_THROW_WITH(block->forward(torch::randn({2, 9, 8})), Error,
                      "block: weight 'conv1d.bias' holds a NaN or an infinity");
    bias[3] = 0;
  }
  EXPECT_THROW_WITH(block->forward(torch::randn({2, 9, 8}, torch::kFloat64)), Error,
                    "block: u is float64, the weights are not");
  EXPECT_THROW_WITH(block->materialize(torch::randn({2, 9, 8}, torch::kFloat64)), Error,
                    "Give u.to(torch::kFloat32), or make the block float64");
  block->to(torch::kFloat64);
  EXPECT_THROW_WITH(block->forward(torch::randn({2, 9, 8})), Error,
                    "the weights are float64 but the input is not");
}

TEST(Block, ConcatWidensOutProjAndSharesTheGate) {
  const Block block(small("concat"));
  const auto weights = block->named_parameters();
  EXPECT_EQ(weights["out_proj.weight"].sizes(), (std::vector<int64_t>{8, 32}));
  EXPECT_EQ(weights["norm.weight"].sizes(), (std::vector<int64_t>{32}));
  EXPECT_EQ(weights["in_proj.weight"].size(0), 2 * 16 + 4 * 2 * 3 + 2 * 4);
}

TEST(Block, ASequenceGivesInABatchWhatItGivesAlone) {
  torch::manual_seed(5);
  for (const std::string name : {"hydra", "semiseparable", "toeplitz_dd"}) {
    Block block(small(name));
    block->to(torch::kFloat64);
    const auto u = torch::randn({1, 33, 8}, torch::kFloat64);
    const auto y = block->forward(u, Layout::packed(torch::tensor({0, 7, 7, 8, 25, 33})));
    for (const auto& [begin, L] : {std::pair{0, 7}, {7, 1}, {8, 17}, {25, 8}})
      // Not bit for bit: the order of summation in a matrix product depends on its number of rows.
      expect_close(y.narrow(1, begin, L), block->forward(u.narrow(1, begin, L)), 1e-13, name);
  }
}

// Peak memory of a training step beyond the weights, their gradients, the input and the output's
// gradient: tensors saved for the backward pass and its temporaries. In floats per channel of
// d_inner and token.
double peak_of_training(const Layout& layout, int64_t n) {
  const BlockOptions options;  // d_model 768, d_inner 1536
  Block block(options);
  auto u = torch::randn({1, n, options.d_model}).requires_grad_();
  const auto dy = torch::randn_like(u);
  block->forward(u, layout).backward(dy);  // from now on the weights have gradients
  u.mutable_grad() = torch::Tensor();
  const auto memory = test::count_memory([&] { block->forward(u, layout).backward(dy); });
  EXPECT_EQ(memory->now(), static_cast<int64_t>(u.grad().nbytes())) << "nothing else is left";
  return static_cast<double>(memory->peak()) / static_cast<double>(sizeof(float)) /
         static_cast<double>(n * block->mixer().heads().channels());
}

TEST(Block, TrainingTakesAFewFloatsPerChannelAndToken) {
  const double one = peak_of_training({}, 512);
  const double eight = peak_of_training(Layout::packed(torch::arange(0, 513, 64)), 512);
  RecordProperty("floats_1x512", std::to_string(one));
  RecordProperty("floats_8x64", std::to_string(eight));
  EXPECT_LE(one, 14);
  EXPECT_LE(eight, 14);
}

}  // namespace
}  // namespace hydramix
