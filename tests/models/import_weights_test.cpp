// SPDX-License-Identifier: Apache-2.0
// A model from weights without a config.
#include "models/import_weights.h"

#include "hydramix/error.h"
#include "hydramix/weights.h"
#include "support/expect.h"
#include "support/models.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::tiny_bert;

TEST(ImportWeights, HydraIsFittedFromItsWeightsAlone) {
  auto options = tiny_bert("hydra");
  options.type_vocab = 3;
  options.pooler = true;
  options.norm = "pre";
  options.positions = 12;
  options.mlp.kind = "glu";
  options.mlp.width = 20;
  options.mlp.bias = false;
  options.block.expand = 1.5;
  options.block.d_conv = 5;
  options.block.bias = true;
  options.block.conv_bias = false;
  options.block.mixer_options.learn_initial_states = true;
  BertOptions hints;
  hints.block.mixer_options.max_length = options.block.mixer_options.max_length;
  hints.block.mixer_options.qk_dim = options.block.mixer_options.qk_dim;
  const auto fitted = fitted_options(named_weights(*BertForMaskedLM(options)), hints);
  EXPECT_EQ(to_json(fitted), to_json(options));
}

TEST(ImportWeights, AnMlpMayHaveItsSecondBiasAlone) {
  auto options = tiny_bert("hydra");
  options.mlp = {.kind = "glu", .width = 20};
  options.mlp.input_bias = false;
  const auto fitted = fitted_options(named_weights(*BertForMaskedLM(options)), {});
  EXPECT_TRUE(fitted.mlp.bias);
  EXPECT_FALSE(fitted.mlp.input_bias);
}

TEST(ImportWeights, GroupsAndOtherMixersFollowTheHints) {
  std::vector<std::string> notes;
  for (const auto& name : mixer_names()) {
    auto options = tiny_bert(name);
    options.block.mixer_options.groups = 2;
    BertForMaskedLM model(options);
    auto hints = options;
    hints.vocab = 7;
    hints.layers = 5;
    hints.block.d_model = 99;
    hints.mlp.kind = "gelu";
    const auto copy = import_weights(named_weights(*model), hints, notes);
    const auto ids = torch::randint(1, 30, {1, 8}, torch::kInt64);
    EXPECT_TRUE(torch::equal(model->encode(ids, {}), copy->encode(ids, {}))) << name;
  }
  EXPECT_TRUE(notes.empty());
}

TEST(ImportWeights, KeepsFloat64) {
  BertForMaskedLM model(tiny_bert("hydra"));
  model->to(torch::kFloat64);
  std::vector<std::string> notes;
  const auto copy = import_weights(named_weights(*model), {}, notes);
  const auto loaded = named_weights(*copy);
  for (const auto& [name, weight] : named_weights(*model))
    EXPECT_TRUE(torch::equal(weight, loaded.at(name))) << name;
}

TEST(ImportWeights, LeavesOutWhatIsTiedAndSaysWhatDoesNotFit) {
  BertForMaskedLM model(tiny_bert("hydra"));
  const auto weights = named_weights(*model);
  auto published = weights;
  const auto& words = weights.at("bert.embeddings.word_embeddings.weight");
  published["cls.predictions.decoder.weight"] = words.clone();
  published["bert.embeddings.position_ids"] = torch::arange(16);
  std::vector<std::string> notes;
  import_weights(published, {}, notes);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].find("cls.predictions.decoder.weight"), std::string::npos);
  EXPECT_NE(notes[1].find("position_ids"), std::string::npos);

  published["cls.predictions.decoder.weight"] = words + 1;
  EXPECT_THROW_WITH(import_weights(published, {}, notes), Error, "differs from");
  EXPECT_THROW_WITH(import_weights({{"w", torch::ones({2})}}, {}, notes), Error,
                    "not those of an encoder");
  auto lacking = weights;
  lacking.erase("bert.encoder.layer.1.layer.mixer.D");
  EXPECT_THROW_WITH(import_weights(lacking, {}, notes), Error,
                    "missing 'bert.encoder.layer.1.layer.mixer.D'");
}

}  // namespace
}  // namespace hydramix
