// SPDX-License-Identifier: Apache-2.0
#include "models/layer_matrices.h"

#include "hydramix/bert.h"
#include "support/expect.h"
#include "support/models.h"

namespace hydramix {
namespace {

// Each layer's matrices are those that its block applies: (x of the layer) -> materialize().
void expect_matrices_of_blocks(const std::string& mixer, const std::string& norm,
                               bool separate = false) {
  torch::manual_seed(5);
  auto options = test::tiny_bert(mixer);
  options.block.separate = separate;
  if (separate) options.block.mixer_options.combine = "add";
  options.norm = norm;
  options.initial_deviation = 0.3;
  BertForMaskedLM model(options);
  model->eval();
  const torch::NoGradGuard no_grad;
  for (auto& item : model->named_parameters())  // so that the norm matters
    if (item.key().ends_with("layer.norm.weight")) item.value().uniform_(0.5, 2);
  const auto ids = torch::randint(1, 30, {1, 9}, torch::kInt64);
  std::vector<torch::Tensor> x;
  const auto matrices = layer_matrices(*model, options, [&](const auto& observe) {
    model->encode(ids, {}, {}, {}, [&](const torch::Tensor& t) {
      x.push_back(t);
      observe(t);
    });
  });
  ASSERT_EQ(matrices.size(), 2u);
  std::vector<Block> blocks;
  for (const auto& module : model->modules())
    if (auto block = std::dynamic_pointer_cast<BlockImpl>(module);
        block != nullptr && block->options().mixer == mixer)
      blocks.emplace_back(block);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    auto input = x[layer];
    if (norm == "pre") {
      const auto weight =
          model->named_parameters()[concat("bert.encoder.layer.", layer, ".layer.norm.weight")];
      const auto centred = input - input.mean(-1, true);
      input = centred / (centred.square().mean(-1, true) + 1e-5).sqrt() * weight;
    }
    const auto expected = blocks[layer]->materialize(input)[0].to(torch::kFloat64);
    EXPECT_EQ(matrices[layer].sizes(), expected.sizes());
    EXPECT_TRUE(torch::allclose(matrices[layer], expected, 1e-4, 1e-5)) << mixer << " " << norm;
    if (mixer == "semiseparable") {
      EXPECT_EQ(matrices[layer].triu(1).abs().max().item<double>(), 0) << "causal";
    }
  }
}

TEST(LayerMatrices, AreThoseThatTheBlocksApply) {
  for (const char* mixer : {"hydra", "semiseparable", "attention_dd"})
    for (const char* norm : {"post", "pre"}) expect_matrices_of_blocks(mixer, norm);
  expect_matrices_of_blocks("bidirectional", "pre", /*separate=*/true);
}

// An independent path to the first layer: the patches through the convolution, the norm, the block.
TEST(LayerMatrices, OfAnImageModelMixItsPatches) {
  torch::manual_seed(6);
  for (const char* mixer : {"hydra", "attention"}) {
    auto options = test::tiny_image_model(mixer);
    options.pooling = "first";
    ImageModel model(options);
    model->eval();
    const torch::NoGradGuard no_grad;
    const auto pixels = torch::randn({1, 3, options.size, options.size});
    const auto matrices = layer_matrices(model, pixels);
    ASSERT_EQ(matrices.size(), 2u);
    auto weights = model->named_parameters();
    const auto kernel = weights["vit.embeddings.patch_embeddings.projection.weight"].view(
        {options.block.d_model, 3, options.patch, options.patch});
    const auto patches =
        torch::conv2d(pixels, kernel, weights["vit.embeddings.patch_embeddings.projection.bias"],
                      options.patch)
            .flatten(2)
            .transpose(1, 2);
    const auto x = torch::cat({weights["vit.embeddings.cls_token"], patches}, 1);
    const auto centred = x - x.mean(-1, true);
    const auto input = centred / (centred.square().mean(-1, true) + 1e-5).sqrt();
    std::shared_ptr<BlockImpl> first;
    for (const auto& module : model->modules())
      if (auto block = std::dynamic_pointer_cast<BlockImpl>(module); block && !first) first = block;
    const auto expected = first->materialize(input)[0].to(torch::kFloat64);
    EXPECT_EQ(matrices[0].sizes(), expected.sizes());
    EXPECT_EQ(matrices[0].size(-1), 5) << "four patches and the class token";
    EXPECT_TRUE(torch::allclose(matrices[0], expected, 1e-4, 1e-5)) << mixer;
  }
}

}  // namespace
}  // namespace hydramix
