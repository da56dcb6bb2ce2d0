// SPDX-License-Identifier: Apache-2.0
#include "hydramix/model_folder.h"

#include <fstream>
#include <sstream>

#include "hydramix/error.h"
#include "hydramix/tensor_file.h"
#include "hydramix/weights.h"
#include "language/language_documents.h"
#include "support/expect.h"
#include "support/models.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::tiny_bert;

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void overwrite(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ModelFolder, RoundTripIsBitExact) {
  const test::TemporaryFolder folder;
  for (const auto type : {torch::kFloat32, torch::kFloat64})
    for (const std::string mixer : {"hydra", "cauchy_dd", "toeplitz_di"}) {
      auto options = tiny_bert(mixer);
      options.norm = "pre";
      options.positions = 12;
      options.mlp.kind = "glu";
      options.mlp.width = 20;
      options.block.mixer_options.dt_limit_low = 1.0 / 3;
      BertForMaskedLM model(options);
      model->to(type);
      save_model(folder / "deep" / mixer, model);
      const auto copy = load_model(folder / "deep" / mixer);
      EXPECT_EQ(to_json(copy->options()), to_json(model->options()));
      const auto weights = named_weights(*copy);
      for (const auto& [name, tensor] : named_weights(*model))
        EXPECT_TRUE(torch::equal(tensor, weights.at(name))) << mixer << " " << name;
      const auto ids = torch::randint(30, {2, 9}, torch::kInt64);
      EXPECT_TRUE(torch::equal(copy->encode(ids, {}), model->encode(ids, {}))) << mixer;
    }
}

TEST(ModelFolder, SavingAgainReplacesTheModel) {
  const test::TemporaryFolder folder;
  save_model(folder.path(), BertForMaskedLM(tiny_bert("dense")));
  const BertForMaskedLM second(tiny_bert("hydra"));
  save_model(folder.path(), second);
  EXPECT_EQ(load_model(folder.path())->options().block.mixer, "hydra");
}

TEST(ModelFolder, FaultsNameTheFileAndTheKey) {
  const test::TemporaryFolder folder;
  const BertForMaskedLM model(tiny_bert("hydra"));
  save_model(folder.path(), model);
  const auto config = folder / "config.json", weights = folder / "model.safetensors";
  const auto good = contents(config);
  const auto expect_config_fault = [&](const std::string& text, const std::string& fault) {
    overwrite(config, text);
    EXPECT_THROW_WITH(load_model(folder.path()), Error, config.string());
    EXPECT_THROW_WITH(load_model(folder.path()), Error, fault);
  };
  expect_config_fault("[1]", "expected a JSON object");
  expect_config_fault("{\"format\": 1, \"version\": 1}", "the key 'model' is missing");
  expect_config_fault(replaced(good, "hydramix-model", "other"), "format is \"other\"");
  overwrite(config, "{\"train\": {}, \"model\": {}}");
  EXPECT_THROW_WITH(load_model(folder.path()), Error, "a run of pretraining");
  overwrite(config, "{\"task\": \"RTE\", \"model\": \"x\"}");
  EXPECT_THROW_WITH(load_classifier(folder.path()), Error, (folder / "model").string());
  expect_config_fault(replaced(good, "\"version\": 1", "\"version\": 2"), "version is 2");
  expect_config_fault(replaced(good, "\"d_state\": 8,", ""),
                      "the key 'model.block.mixer_options.d_state' is missing");
  expect_config_fault(replaced(good, "\"d_state\": 8,", "\"d_state\": 8, \"d_stat\": 8,"),
                      "d_stat");
  expect_config_fault(replaced(good, "\"layers\": 2", "\"layers\": 3"),
                      "the weights were saved with another config");
  // Said before a gigabyte is allocated for it.
  expect_config_fault(replaced(good, "\"positions\": 0", "\"positions\": 16777216"),
                      "describes a module of at least");
  overwrite(config, good);

  auto some = named_weights(*model);
  some.erase("cls.predictions.decoder.bias");
  save_tensors(weights, some);
  EXPECT_THROW_WITH(load_model(folder.path()), Error, weights.string());
  EXPECT_THROW_WITH(load_model(folder.path()), Error, "missing 'cls.predictions.decoder.bias'");
  save_tensors(weights, named_weights(*BertForMaskedLM(tiny_bert("cauchy_dd"))));
  EXPECT_THROW_WITH(load_model(folder.path()), Error,
                    "missing 'bert.encoder.layer.0.layer.mixer.A_log'");
  EXPECT_THROW_WITH(load_model(folder / "nowhere"), Error, "config.json");
  EXPECT_THROW_WITH(save_model(config / "below", model), Error, "cannot make the folder");
}

TEST(ModelFolder, DamagedWeightsAreNamed) {
  const test::TemporaryFolder folder;
  save_model(folder.path(), BertForMaskedLM(tiny_bert("hydra")));
  auto bytes = contents(folder / "model.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 0x40);
  overwrite(folder / "model.safetensors", bytes);
  EXPECT_THROW_WITH(load_model(folder.path()), Error, "model.safetensors: tensor \"");
}

TEST(ModelFolder, AConfigWrittenAgainByAnotherProgramStillOpens) {
  const test::TemporaryFolder folder;
  save_model(folder.path(), BertForMaskedLM(tiny_bert("hydra")));
  // Sorted keys, no spaces.
  overwrite(folder / "config.json", nlohmann::json::parse(contents(folder / "config.json")).dump());
  EXPECT_EQ(load_model(folder.path())->options().block.mixer, "hydra");
}

TEST(ModelFolder, TheTokenizerMustBeTheOneItWasSavedWith) {
  const test::TemporaryFolder folder;
  const BertForMaskedLM model(tiny_bert("hydra"));
  const auto tokenizer = language_tokenizer();
  save_model(folder.path(), model, &tokenizer);
  EXPECT_EQ(load_model_tokenizer(folder.path()).fingerprint(), tokenizer.fingerprint());
  const auto good = contents(folder / "tokenizer.json");
  overwrite(folder / "tokenizer.json", replaced(good, "\"anna\"", "\"anne\""));
  EXPECT_THROW_WITH(load_model_tokenizer(folder.path()), Error,
                    "tokenizer.json: is not the tokenizer that the model was saved with");
  overwrite(folder / "tokenizer.json", nlohmann::json::parse(good).dump());
  EXPECT_EQ(load_model_tokenizer(folder.path()).fingerprint(), tokenizer.fingerprint());
  save_model(folder.path(), model);  // without a tokenizer, any will do
  overwrite(folder / "tokenizer.json", replaced(good, "\"anna\"", "\"anne\""));
  load_model_tokenizer(folder.path());
}

TEST(ModelFolder, ClassifierRoundTripIsBitExact) {
  const test::TemporaryFolder folder;
  for (const auto type : {torch::kFloat32, torch::kFloat64})
    for (const std::string pooling : {"cls", "mean"}) {
      SequenceClassifier model(
          tiny_bert("hydra"),
          ClassifierOptions{.outputs = 3, .pooling = pooling, .dropout = 1.0 / 3});
      model->to(type);
      model->eval();
      const std::vector<std::string> labels{"yes", "0",
                                            "null"};  // texts, whatever YAML sees in them
      save_classifier(folder.path(), model, "a: task", labels);
      EXPECT_TRUE(is_classifier(folder.path()));
      auto copy = load_classifier(folder.path());
      copy.model->eval();
      EXPECT_EQ(copy.task, "a: task");
      EXPECT_EQ(copy.labels, labels);
      EXPECT_EQ(to_json(copy.model->options()), to_json(model->options()));
      EXPECT_EQ(to_json(copy.model->encoder_options()), to_json(model->encoder_options()));
      const auto weights = named_weights(*copy.model);
      for (const auto& [name, tensor] : named_weights(*model))
        EXPECT_TRUE(torch::equal(tensor, weights.at(name))) << name;
      const auto ids = torch::randint(30, {2, 9}, torch::kInt64);
      EXPECT_TRUE(torch::equal(copy.model->forward(ids, {}), model->forward(ids, {})));
    }
  save_classifier(folder.path(), SequenceClassifier(tiny_bert("hydra"), ClassifierOptions{1}),
                  "score", {});
  EXPECT_TRUE(load_classifier(folder.path()).labels.empty());
}

TEST(ModelFolder, KeepsWhatAnswersDependOn) {
  const test::TemporaryFolder folder;
  ClassifierTask task{"labels", {"a", "b"}, "labels", {0.25, 1.0 / 3}};
  task.text = "body", task.pair = "title", task.label = "topics", task.separator = "; ";
  task.pairs = true;
  save_classifier(folder.path(), SequenceClassifier(tiny_bert("hydra"), ClassifierOptions{}), task);
  const auto copy = load_classifier(folder.path());
  EXPECT_EQ(copy.kind, "labels");
  EXPECT_EQ(copy.thresholds, task.thresholds);
  EXPECT_EQ(copy.text + copy.pair + copy.label + copy.separator, "bodytitletopics; ");
  EXPECT_TRUE(copy.pairs);
  task.thresholds.pop_back();
  EXPECT_THROW_WITH(
      save_classifier(folder.path(), SequenceClassifier(tiny_bert("hydra"), ClassifierOptions{}),
                      task),
      Error, "1 thresholds for 2 labels");
  const SequenceClassifier vectors(tiny_bert("hydra"),
                                   ClassifierOptions{.outputs = 0, .pooling = "mean"});
  save_classifier(folder.path(), vectors, ClassifierTask{"pairs", {}, "pairs"});
  EXPECT_EQ(load_classifier(folder.path()).model->options().outputs, 0);
  EXPECT_THROW_WITH(save_classifier(folder.path(), vectors, "score", {}), Error,
                    "0 outputs for the kind \"score\"");
}

// Folders of earlier programs do not have the options that came later.
TEST(ModelFolder, OlderModelsHaveTheValuesThatTheyImplied) {
  const test::TemporaryFolder folder;
  const BertForMaskedLM model(tiny_bert("hydra"));
  save_model(folder.path(), model);
  auto config = nlohmann::ordered_json::parse(contents(folder / "config.json"));
  for (const char* key :
       {"initial_distribution", "norm_eps", "embedding_norm_eps", "output_dropout"})
    EXPECT_EQ(config["model"].erase(key), 1u) << key;
  auto& block = config["model"]["block"];
  for (const char* key : {"separate", "causal_conv", "side_mixer"})
    EXPECT_EQ(block.erase(key), 1u) << key;
  for (const char* key :
       {"skip", "spectrum", "discretisation", "grid_width", "projected_length",
        "kaleidoscope_width", "kaleidoscope_expansion", "core", "combine", "own_weights", "order",
        "filter_width", "filter_features", "filter_layers", "filter_frequency", "filter_decay"})
    EXPECT_EQ(block["mixer_options"].erase(key), 1u) << key;
  for (const char* key : {"input_bias", "dropout"})
    EXPECT_EQ(config["model"]["mlp"].erase(key), 1u) << key;
  const auto file = load_tensors(folder / "model.safetensors");
  save_tensors(folder / "model.safetensors", file.tensors, {{"config", config.dump()}});
  overwrite(folder / "config.json", config.dump());
  const auto options = load_model(folder.path())->options();
  EXPECT_TRUE(options.mlp.input_bias);
  EXPECT_EQ(options.mlp.dropout, 0);
  EXPECT_EQ(options.block.mixer_options.filter_layers, 4);
  EXPECT_EQ(options.output_dropout, 0);
  EXPECT_EQ(options.norm_eps, 1e-5);
  EXPECT_TRUE(options.block.mixer_options.skip);
  EXPECT_EQ(options.block.mixer_options.spectrum, "linear");
}

// Folders of earlier programs do not say what their outputs mean.
TEST(ModelFolder, OlderClassifiersHaveClassesOrAScore) {
  const test::TemporaryFolder folder;
  for (const auto& labels : {std::vector<std::string>{"a", "b"}, std::vector<std::string>{}}) {
    const ClassifierOptions options{.outputs = labels.empty() ? 1 : 2};
    save_classifier(folder.path(), SequenceClassifier(tiny_bert("hydra"), options), "t", labels);
    auto config = nlohmann::ordered_json::parse(contents(folder / "config.json"));
    for (const char* key : {"kind", "thresholds", "text", "pair", "label", "separator", "pairs"})
      EXPECT_EQ(config["classifier"].erase(key), 1u) << key;
    const auto file = load_tensors(folder / "model.safetensors");
    save_tensors(folder / "model.safetensors", file.tensors, {{"config", config.dump()}});
    overwrite(folder / "config.json", config.dump());
    EXPECT_EQ(load_classifier(folder.path()).kind, labels.empty() ? "score" : "classes");
  }
}

TEST(ModelFolder, AClassifierIsNoMaskedLm) {
  const test::TemporaryFolder folder;
  const auto config = (folder / "config.json").string();
  EXPECT_FALSE(is_classifier(folder.path()));
  save_model(folder.path(), BertForMaskedLM(tiny_bert("hydra")));
  EXPECT_FALSE(is_classifier(folder.path()));
  EXPECT_THROW_WITH(load_classifier(folder.path()), Error,
                    config + ": has no key 'classifier': this is a masked-language model");
  save_classifier(folder.path(), SequenceClassifier(tiny_bert("hydra"), ClassifierOptions{}), "RTE",
                  {"a", "b"});
  EXPECT_THROW_WITH(load_model(folder.path()), Error,
                    config + ": this is a classifier for the task \"RTE\"");
}

TEST(ModelFolder, FaultsOfAClassifierNameTheFileAndTheKey) {
  const test::TemporaryFolder folder;
  const SequenceClassifier model(tiny_bert("hydra"), ClassifierOptions{});
  const auto save = [&](const std::vector<std::string>& labels) {
    save_classifier(folder.path(), model, "RTE", labels);
  };
  EXPECT_THROW_WITH(save({"a", "b", "c"}), Error, "3 labels for 2 outputs");
  EXPECT_THROW_WITH(save({}), Error, "0 labels for 2 outputs");
  EXPECT_THROW_WITH(save({"a", "a"}), Error, "the label \"a\" stands twice");
  EXPECT_THROW_WITH(
      save_classifier(folder.path(),
                      SequenceClassifier(tiny_bert("hydra"), ClassifierOptions{.outputs = 1}),
                      "RTE", {"a"}),
      Error, "one label \"a\" for one output");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "a refused model left something";
  save({"a", "b"});
  const auto config = folder / "config.json", weights = folder / "model.safetensors";
  const auto good = contents(config);
  const auto expect_config_fault = [&](const std::string& text, const std::string& fault) {
    overwrite(config, text);
    EXPECT_THROW_WITH(load_classifier(folder.path()), Error, config.string());
    EXPECT_THROW_WITH(load_classifier(folder.path()), Error, fault);
  };
  expect_config_fault(replaced(good, "\"task\": \"RTE\",", ""),
                      "the key 'classifier.task' is missing");
  expect_config_fault(replaced(good, "\"pooling\": \"cls\",", ""),
                      "the key 'classifier.pooling' is missing");
  expect_config_fault(replaced(good, "\"pooling\": \"cls\"", "\"pooling\": \"max\""), "pooling");
  expect_config_fault(replaced(good, "\"outputs\": 2", "\"outputs\": 3"),
                      "classifier.labels: 2 labels for 3 outputs");
  expect_config_fault(replaced(good, "\"a\"", "\"c\""),
                      "the weights were saved with another config");
  overwrite(config, good);

  auto some = named_weights(*model);
  some.erase("classifier.bias");
  save_tensors(weights, some);
  EXPECT_THROW_WITH(load_classifier(folder.path()), Error, "missing 'classifier.bias'");
}

}  // namespace
}  // namespace hydramix
