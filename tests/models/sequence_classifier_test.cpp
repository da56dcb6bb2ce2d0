// SPDX-License-Identifier: Apache-2.0
#include "hydramix/sequence_classifier.h"

#include <set>

#include "hydramix/bert.h"
#include "hydramix/error.h"
#include "hydramix/weights.h"
#include "ops/dropout.h"
#include "support/expect.h"
#include "support/models.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;
using test::tiny_bert;
using torch::Tensor;

// Weights large enough that a difference anywhere shows in the logits.
BertOptions lively_bert(const std::string& mixer) {
  auto options = tiny_bert(mixer);
  options.initial_deviation = 0.3;
  return options;
}

std::set<std::string> names_of(const torch::nn::Module& model) {
  std::set<std::string> names;
  for (const auto& item : named_weights(model)) names.insert(item.first);
  return names;
}

// Sequences end to end, and the same padded on the left and on the right in turns.
struct Sequences {
  std::vector<Tensor> ids, type_ids;  // (L_s) each

  explicit Sequences(const std::vector<int64_t>& lengths) {
    for (const int64_t L : lengths) {
      ids.push_back(torch::randint(5, 30, {L}, torch::kInt64));
      type_ids.push_back((torch::arange(L) > L / 2).to(torch::kInt64));
    }
  }
  Tensor alone(const SequenceClassifier& model, const DropoutKey& key = {}) const {
    std::vector<Tensor> rows;
    for (std::size_t s = 0; s < ids.size(); ++s) {
      DropoutKey own{key.seed, {}};
      if (key.sequences.defined())
        own.sequences = key.sequences.narrow(0, static_cast<int64_t>(s), 1);
      rows.push_back(model->forward(ids[s].unsqueeze(0), type_ids[s].unsqueeze(0), {}, own));
    }
    return torch::cat(rows);
  }
  Tensor packed(const SequenceClassifier& model, const DropoutKey& key = {}) const {
    std::vector<int64_t> offsets{0};
    for (const auto& t : ids) offsets.push_back(offsets.back() + t.size(0));
    return model->forward(torch::cat(ids).unsqueeze(0), torch::cat(type_ids).unsqueeze(0),
                          Layout::packed(torch::tensor(offsets, torch::kInt64)), key);
  }
  Tensor padded(const SequenceClassifier& model, int64_t L) const {
    const auto B = static_cast<int64_t>(ids.size());
    const auto all = torch::zeros({B, L}, torch::kInt64), types = torch::ones_like(all);
    const auto mask = torch::zeros({B, L}, torch::kBool);
    for (int64_t b = 0; b < B; ++b) {
      const int64_t n = ids[b].size(0), begin = b % 2 == 0 ? 0 : L - n;
      all[b].narrow(0, begin, n).copy_(ids[b]);
      types[b].narrow(0, begin, n).copy_(type_ids[b]);
      mask[b].narrow(0, begin, n).fill_(true);
    }
    return model->forward(all, types, Layout::padded(mask));
  }
};

TEST(SequenceClassifier, HasTheNamesOfPublishedClassifiersAndNoMaskedLmHead) {
  for (const std::string mixer : {"hydra", "cauchy_dd"}) {
    auto options = tiny_bert(mixer);
    SequenceClassifier model(options, ClassifierOptions{.outputs = 3});
    options.pooler = true;
    std::set<std::string> expected{"classifier.weight", "classifier.bias"};
    for (const auto& name : names_of(*BertForMaskedLM(options)))
      if (name.starts_with("bert.")) expected.insert(name);
    EXPECT_EQ(expected.count("bert.pooler.dense.weight"), 1u);
    EXPECT_EQ(names_of(*model), expected);
    EXPECT_TRUE(model->encoder_options().pooler);
    const auto weights = named_weights(*model);
    EXPECT_EQ(weights.at("classifier.weight").sizes(), torch::IntArrayRef({3, 16}));
    // As BERT starts: normal with deviation 0.02, no bias. Of 256 the deviation is within 15 %.
    EXPECT_NEAR(weights.at("bert.pooler.dense.weight").std().item<double>(), 0.02, 0.003);
    EXPECT_EQ(weights.at("classifier.bias").abs().max().item<double>(), 0);
  }
}

TEST(SequenceClassifier, ASequenceGivesTheSameAlonePackedAndPadded) {
  for (const std::string mixer : {"hydra", "attention_dd", "toeplitz_dd"})
    for (const std::string pooling : {"cls", "mean"}) {
      torch::manual_seed(3);
      SequenceClassifier model(lively_bert(mixer),
                               ClassifierOptions{.outputs = 3, .pooling = pooling});
      model->eval();
      const Sequences sequences({7, 1, 12, 3, 9});
      for (const auto& [type, tolerance] :
           {std::pair{torch::kFloat32, 1e-5}, {torch::kFloat64, 1e-12}}) {
        model->to(type);
        const torch::NoGradGuard no_grad;
        const auto alone = sequences.alone(model);
        const auto what = mixer + ", " + pooling;
        ASSERT_EQ(alone.sizes(), torch::IntArrayRef({5, 3})) << what;
        EXPECT_EQ(alone.scalar_type(), type);
        EXPECT_GT((alone[0] - alone[2]).abs().max().item<double>(), 1e-2) << what;
        expect_close(sequences.packed(model), alone, tolerance, what + ", packed");
        expect_close(sequences.padded(model, 14), alone, tolerance, what + ", padded");
      }
    }
}

TEST(SequenceClassifier, PoolsTheFirstTokenOrTheMean) {
  torch::manual_seed(4);
  auto options = lively_bert("hydra");
  options.pooler = true;
  BertForMaskedLM pretrained(options);
  pretrained->to(torch::kFloat64);
  const auto ids = torch::randint(5, 30, {1, 11}, torch::kInt64);
  const auto layout = Layout::packed(torch::tensor({0, 4, 11}, torch::kInt64));
  const auto hidden = pretrained->encode(ids, {}, layout)[0];  // (11, 16)
  for (const std::string pooling : {"cls", "mean"}) {
    SequenceClassifier model(options, ClassifierOptions{.outputs = 2, .pooling = pooling});
    model->to(torch::kFloat64);
    model->eval();
    model->take_encoder(*pretrained);
    const auto weights = named_weights(*model);
    const auto rows =
        pooling == "cls"
            ? torch::stack({hidden[0], hidden[4]})
            : torch::stack({hidden.narrow(0, 0, 4).mean(0), hidden.narrow(0, 4, 7).mean(0)});
    const auto pooled = torch::tanh(rows.matmul(weights.at("bert.pooler.dense.weight").t()) +
                                    weights.at("bert.pooler.dense.bias"));
    const auto expected =
        pooled.matmul(weights.at("classifier.weight").t()) + weights.at("classifier.bias");
    expect_close(model->forward(ids, {}, layout), expected, 1e-14, pooling);
  }
}

// All pooled channels are 1 and output c reads channel c, so the logits are the mask.
SequenceClassifier mask_shower(double dropout) {
  SequenceClassifier model(tiny_bert("hydra"),
                           ClassifierOptions{.outputs = 16, .dropout = dropout});
  const torch::NoGradGuard no_grad;
  auto weights = named_weights(*model);
  weights.at("bert.pooler.dense.weight").zero_();
  weights.at("bert.pooler.dense.bias").fill_(20);  // tanh is 1 to the last bit
  weights.at("classifier.weight").copy_(torch::eye(16));
  return model;
}

TEST(SequenceClassifier, DropoutIsAFunctionOfSeedAndSequenceAlone) {
  const torch::NoGradGuard no_grad;
  auto model = mask_shower(0.5);
  const Sequences sequences(std::vector<int64_t>(40, 2));
  const DropoutKey key{7, torch::arange(100, 140)};
  const auto masks = sequences.packed(model, key);
  EXPECT_TRUE(torch::equal(sequences.alone(model, key), masks)) << "depends on the batch";
  const auto expected =
      keep_mask({7, key.sequences, torch::full({40}, -1, torch::kInt64)}, 16, 0.5);
  EXPECT_TRUE(torch::equal(masks, 2 * expected.to(torch::kFloat32)));
  // 640 coin tosses: five deviations of 0.02.
  EXPECT_NEAR((masks > 0).to(torch::kFloat64).mean().item<double>(), 0.5, 0.1);
  EXPECT_FALSE(torch::equal(sequences.packed(model, {8, key.sequences}), masks));
  EXPECT_FALSE(torch::equal(sequences.packed(model, {7, key.sequences + 1}), masks));
  const auto first_tokens = torch::zeros({40}, torch::kInt64);
  EXPECT_FALSE(torch::equal(keep_mask({7, key.sequences, first_tokens}, 16, 0.5), expected))
      << "the embedding drops the same channels";

  EXPECT_THROW_WITH(sequences.packed(model), Error, "a number for each of the 40 sequences");
  EXPECT_THROW_WITH(sequences.packed(model, {7, torch::arange(39)}), Error, "got shape [39]");
  model->eval();
  EXPECT_TRUE(torch::equal(sequences.packed(model), torch::ones({40, 16})));
}

TEST(SequenceClassifier, TrainingModeReachesTheEncoder) {
  auto options = tiny_bert("hydra");
  options.dropout = 0.3;
  SequenceClassifier model(options, ClassifierOptions{.dropout = 0});
  const Sequences sequences({4, 6});
  EXPECT_THROW_WITH(sequences.packed(model), Error, "encoder: dropout = 0.3 in training needs");
  const DropoutKey key{1, torch::tensor({5, 9}, torch::kInt64)};
  const auto dropped = sequences.packed(model, key);
  model->eval();
  const auto whole = sequences.packed(model);
  EXPECT_GT(test::relative_error(dropped, whole), 1e-3);
  model->train();
  EXPECT_TRUE(torch::equal(sequences.packed(model, key), dropped));
}

TEST(SequenceClassifier, GradientsReachEveryWeight) {
  for (const std::string pooling : {"cls", "mean"}) {
    torch::manual_seed(6);
    SequenceClassifier model(lively_bert("hydra"),
                             ClassifierOptions{.outputs = 3, .pooling = pooling});
    model->to(torch::kFloat64);
    const Sequences sequences({5, 8, 6});
    const DropoutKey key{3, torch::arange(3)};
    const auto target = torch::randn({3, 3}, torch::kFloat64);
    const auto f = [&] { return (sequences.packed(model, key) * target).sum(); };
    std::vector<std::pair<std::string, Tensor>> inputs;
    const auto weights = named_weights(*model);
    for (const auto* name :
         {"classifier.weight", "classifier.bias", "bert.pooler.dense.weight",
          "bert.embeddings.word_embeddings.weight", "bert.embeddings.token_type_embeddings.weight",
          "bert.encoder.layer.0.layer.mixer.in_proj.weight"})
      inputs.emplace_back(name, weights.at(name));
    test::expect_gradients(f, inputs, pooling);
    for (const auto& [name, weight] : weights) {
      ASSERT_TRUE(weight.grad().defined()) << name;
      EXPECT_GT(weight.grad().abs().max().item<double>(), 0) << name;
    }
  }
}

TEST(SequenceClassifier, GivesARowForEachToken) {
  torch::manual_seed(4);
  SequenceClassifier model(lively_bert("hydra"),
                           ClassifierOptions{.outputs = 3, .pooling = "tokens", .dropout = 0.5});
  model->to(torch::kFloat64);
  EXPECT_EQ(names_of(*model).count("bert.pooler.dense.weight"), 0u);
  const Sequences sequences({7, 1, 12});
  const DropoutKey key{7, torch::arange(100, 103)};
  const auto dropped = sequences.packed(model, key);
  ASSERT_EQ(dropped.sizes(), torch::IntArrayRef({20, 3}));
  expect_close(sequences.alone(model, key), dropped, 1e-12, "dropout depends on the batch");
  EXPECT_THROW_WITH(sequences.packed(model), Error, "a number for each of the 3 sequences");
  model->eval();
  const auto whole = sequences.packed(model);
  expect_close(sequences.alone(model), whole, 1e-12, "alone");
  expect_close(sequences.padded(model, 14), whole, 1e-12, "padded");
  EXPECT_GT(test::relative_error(dropped, whole), 1e-3);
  model->rescale(2, 5);
  expect_close(sequences.packed(model), whole * 2 + 5, 1e-12, "rescaled");
}

TEST(SequenceClassifier, WithoutOutputsItGivesTheVector) {
  torch::manual_seed(4);
  const auto options = lively_bert("hydra");
  const BertForMaskedLM pretrained(options);
  SequenceClassifier model(options, ClassifierOptions{.outputs = 0, .pooling = "mean"});
  model->take_encoder(*pretrained);
  model->eval();
  const torch::NoGradGuard no_grad;
  const auto ids = torch::randint(5, 30, {1, 9}, torch::kInt64);
  expect_close(model->forward(ids, {}), pretrained->encode(ids, {}).mean(1), 1e-6, "mean");
  for (const auto& name : names_of(*model))
    EXPECT_FALSE(name.starts_with("classifier.") || name.starts_with("bert.pooler.")) << name;
  model->take_encoder(*SequenceClassifier(options, ClassifierOptions{}));  // whose pooler is left
  EXPECT_THROW_WITH(
      SequenceClassifier(options, ClassifierOptions{.outputs = 0, .pooling = "tokens"}), UsageError,
      "outputs for each token");
}

TEST(SequenceClassifier, TakesTheEncoderOfAMaskedLm) {
  auto options = tiny_bert("hydra");
  BertForMaskedLM pretrained(options);
  SequenceClassifier model(options, ClassifierOptions{.outputs = 3});
  std::map<std::string, Tensor> before;
  for (const auto& [name, weight] : named_weights(*model))
    before.emplace(name, weight.detach().clone());
  model->take_encoder(*pretrained);
  const auto theirs = named_weights(*pretrained), ours = named_weights(*model);
  for (const auto& [name, weight] : ours) {
    const bool own = name.starts_with("classifier.") || name.starts_with("bert.pooler.");
    EXPECT_TRUE(torch::equal(weight, own ? before.at(name) : theirs.at(name))) << name;
  }
  {
    const torch::NoGradGuard no_grad;
    theirs.at("bert.embeddings.word_embeddings.weight").zero_();
  }
  EXPECT_GT(ours.at("bert.embeddings.word_embeddings.weight").abs().max().item<double>(), 0)
      << "shares memory";

  options.pooler = true;
  options.dropout = 0.2;  // training options, which may differ
  options.output_dropout = 0.2;
  options.block.mixer_options.dropout = 0.2;
  const BertForMaskedLM with_pooler(options);
  model->take_encoder(*with_pooler);
  EXPECT_TRUE(torch::equal(ours.at("bert.pooler.dense.weight"),
                           named_weights(*with_pooler).at("bert.pooler.dense.weight")));
}

TEST(SequenceClassifier, TakesTheEncoderOfAnotherClassifier) {
  const SequenceClassifier other(tiny_bert("hydra"), ClassifierOptions{.outputs = 3});
  SequenceClassifier model(tiny_bert("hydra"), ClassifierOptions{.outputs = 1});
  const auto head = named_weights(*model).at("classifier.weight").detach().clone();
  model->take_encoder(*other);
  const auto theirs = named_weights(*other);
  for (const auto& [name, weight] : named_weights(*model))
    EXPECT_TRUE(torch::equal(weight, name.starts_with("bert.")     ? theirs.at(name)
                                     : name == "classifier.weight" ? head
                                                                   : torch::zeros({1})))
        << name;
}

TEST(SequenceClassifier, RefusesAnEncoderThatIsNotTheSame) {
  SequenceClassifier model(tiny_bert("hydra"), ClassifierOptions{});
  const auto before = named_weights(*model).at("bert.pooler.dense.weight").detach().clone();
  auto deeper = tiny_bert("hydra");
  deeper.layers = 3;
  EXPECT_THROW_WITH(model->take_encoder(*BertForMaskedLM(deeper)), Error,
                    "the pretrained encoder has layers = 3, this classifier 2.");
  // The same weights, another function.
  auto limited = tiny_bert("hydra");
  limited.block.mixer_options.dt_limit_low = 0.5;
  EXPECT_THROW_WITH(model->take_encoder(*SequenceClassifier(limited, ClassifierOptions{})), Error,
                    "block.mixer_options.dt_limit_low = 0.5");
  EXPECT_THROW_WITH(model->take_encoder(*torch::nn::Linear(2, 2)), Error,
                    "missing 'bert.embeddings.LayerNorm.bias'");
  EXPECT_TRUE(torch::equal(named_weights(*model).at("bert.pooler.dense.weight"), before));
}

TEST(SequenceClassifier, BadInputIsNamed) {
  SequenceClassifier model(tiny_bert("hydra"), ClassifierOptions{});
  EXPECT_THROW_WITH(model->check_ids(torch::full({1, 2}, 30, torch::kInt64), {}), Error,
                    "ids must be in [0, 29]; got 30");
  EXPECT_THROW_WITH(model->forward(torch::rand({1, 2}), {}), Error, "must be (B, L) int64");
  EXPECT_THROW_WITH(SequenceClassifier(tiny_bert("hydra"), ClassifierOptions{.outputs = -1}),
                    UsageError, "outputs");
  EXPECT_THROW_WITH(SequenceClassifier(tiny_bert("hydra"), ClassifierOptions{.pooling = "max"}),
                    UsageError, "cls");
}

}  // namespace
}  // namespace hydramix
