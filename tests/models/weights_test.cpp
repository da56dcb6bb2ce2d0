// SPDX-License-Identifier: Apache-2.0
#include "hydramix/weights.h"

#include "hydramix/bert.h"
#include "hydramix/error.h"
#include "hydramix/tensor_file.h"
#include "support/expect.h"
#include "support/models.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::tiny_bert;

TEST(Weights, NamesAreThoseOfThePublishedCheckpoints) {
  const auto hydra = named_weights(*BertForMaskedLM(tiny_bert("hydra")));
  EXPECT_EQ(hydra.count("bert.encoder.layer.1.layer.mixer.A_log"), 1u);
  EXPECT_EQ(hydra.count("bert.encoder.layer.1.layer.mixer.fc_D.weight"), 1u);
  EXPECT_EQ(hydra.count("bert.encoder.layer.1.layer.norm.bias"), 1u);
  EXPECT_EQ(hydra.count("cls.predictions.decoder.bias"), 1u);
  const auto cauchy = named_weights(*BertForMaskedLM(tiny_bert("cauchy_dd")));
  EXPECT_EQ(cauchy.count("bert.encoder.layer.0.layer.mixer.matrix_mixer.bias"), 1u);
  const auto block = named_weights(*Block(tiny_bert("hydra").block));
  EXPECT_EQ(block.count("dt_bias"), 1u);
  EXPECT_EQ(block.count("conv1d.weight"), 1u);
}

// Every parameter of every mixer that does not decay, by the end of its name.
TEST(Weights, OnlyMatricesDecay) {
  const std::vector<std::string> exempt = {"bias",
                                           "norm.weight",
                                           "LayerNorm.weight",
                                           "A_log",
                                           "log_dt",
                                           "A_real",
                                           "A_imag",
                                           "kernel.B",
                                           "kernel.P",
                                           ".D",
                                           "shift_D",
                                           "filter.frequency",
                                           "filter.position_embeddings",
                                           "dt_bias",
                                           "init_states",
                                           ".theta",
                                           "nu_log",
                                           "theta_log",
                                           "gamma_log",
                                           "q_bias",
                                           "k_bias",
                                           "position_embeddings.weight",
                                           "token_type_embeddings.weight"};
  for (const auto& name : mixer_names()) {
    auto options = tiny_bert(name);
    options.positions = 8;
    options.norm = "pre";
    options.mlp.kind = "gelu";
    options.mlp.width = 24;
    options.mlp.blocks = 2;
    options.block.bias = true;
    options.block.mixer_options.learn_initial_states = true;
    for (const auto& [key, weight] : named_weights(*BertForMaskedLM(options))) {
      bool expected = true;
      for (const auto& ending : exempt) expected = expected && !key.ends_with(ending);
      EXPECT_EQ(decays(key, weight), expected) << name << ": " << key << " " << weight.sizes();
    }
  }
  const auto hydra = named_weights(*BertForMaskedLM(tiny_bert("hydra")));
  const std::string mixer = "bert.encoder.layer.0.layer.mixer.";
  for (const std::string end : {"in_proj.weight", "out_proj.weight", "conv1d.weight"})
    EXPECT_TRUE(decays(mixer + end, hydra.at(mixer + end))) << end;
  for (const std::string end : {"A_log", "D", "dt_bias", "conv1d.bias", "norm.weight"})
    EXPECT_FALSE(decays(mixer + end, hydra.at(mixer + end))) << end;
}

TEST(Weights, RoundTripThroughAFileIsBitExactForEveryMixer) {
  test::TemporaryFolder folder;
  for (const auto& name : mixer_names()) {
    BertForMaskedLM model(tiny_bert(name)), copy(tiny_bert(name));
    save_tensors(folder / "w.safetensors", named_weights(*model));
    load_weights(*copy, load_tensors(folder / "w.safetensors").tensors);
    const auto loaded = named_weights(*copy);
    for (const auto& [key, tensor] : named_weights(*model))
      EXPECT_TRUE(torch::equal(tensor, loaded.at(key))) << key;
    const auto ids = torch::randint(1, 30, {1, 8}, torch::kInt64);
    EXPECT_TRUE(torch::equal(model->encode(ids, {}), copy->encode(ids, {}))) << name;
  }
}

TEST(Weights, FaultsAreAllNamedAndNothingIsChanged) {
  Block block(tiny_bert("hydra").block);
  auto weights = named_weights(*block);
  for (auto& [name, tensor] : weights) tensor = torch::zeros_like(tensor);
  weights["D"] = torch::zeros({9});
  weights["A_logg"] = weights["A_log"];
  weights.erase("A_log");
  weights["conv1d.bias"].view(-1)[3] = std::nan("");
  weights["dt_bias"] = torch::zeros({4}, torch::kInt64);
  const auto before = block->forward(torch::ones({1, 3, 16}));
  for (const std::string text :
       {"missing 'A_log'", "unexpected \"A_logg\" Did you mean 'A_log'?",
        "'D' has shape [9], expected [4]", "'conv1d.bias' holds a NaN or an infinity",
        "'dt_bias' has dtype long"})
    EXPECT_THROW_WITH(load_weights(*block, weights), Error, text);
  EXPECT_TRUE(torch::equal(block->forward(torch::ones({1, 3, 16})), before));
}

TEST(Weights, ValuesThatOverflowTheModelsTypeAreNotFinite) {
  Block block(tiny_bert("hydra").block);
  auto weights = named_weights(*block);
  weights["D"] = torch::full({4}, 1e300, torch::kFloat64);
  EXPECT_THROW_WITH(load_weights(*block, weights), Error, "'D' holds a NaN or an infinity");
}

TEST(Weights, PublishedToeplitzWeightsAreTurnedByOneLag) {
  const auto theirs = torch::arange(5, torch::kFloat64).unsqueeze(0);
  const auto ours = from_reference_toeplitz_weights(theirs);
  EXPECT_TRUE(torch::equal(ours, torch::tensor({{1., 2., 3., 4., 0.}}, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(to_reference_toeplitz_weights(ours), theirs));
}

// The published code's own output, one lag off, is in the golden file as ref.y.
TEST(Weights, TurnedToeplitzWeightsGiveWhatThePublishedCodeGives) {
  const auto file = load_tensors(std::string(HYDRAMIX_SOURCE_DIR) +
                                 "/tests/golden/mixer_toeplitz_di.safetensors");
  BlockOptions options;
  options.mixer = "toeplitz_di";
  options.d_model = 32;
  options.expand = 1;
  options.headdim = 16;
  options.mixer_options.max_length = 24;
  Block block(options);
  block->to(torch::kFloat64);
  std::map<std::string, torch::Tensor> weights;
  for (const auto& [name, tensor] : file.tensors)
    if (name.starts_with("param.")) weights[name.substr(6)] = tensor;
  load_weights(*block, weights, {.reference_toeplitz = true});
  test::expect_close(block->forward(file.at("x")), file.at("ref.y"), 1e-12, "ref.y");
  load_weights(*block, weights);
  test::expect_close(block->forward(file.at("x")), file.at("y"), 1e-12, "y");
}

}  // namespace
}  // namespace hydramix
