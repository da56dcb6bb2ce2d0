// SPDX-License-Identifier: Apache-2.0
// Exported folders: what they hold, that PyTorch computes the same with them, and that they stay
// model folders of ours, also after Hugging Face's tools saved them again.
#include "hub/export_folder.h"

#include <fstream>
#include <sstream>

#include "base/json_reader.h"
#include "hub/model_card.h"
#include "hydramix/error.h"
#include "hydramix/tensor_file.h"
#include "hydramix/text_embedder.h"
#include "hydramix/weights.h"
#include "support/classifiers.h"
#include "support/command.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;
using test::contains;

Json json_in(const std::filesystem::path& path) { return read_json(path, kConfigFile); }

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

// Moves all weights away from their initial values: A_log from 0, D from 1.
void shake(torch::nn::Module& model) {
  const torch::NoGradGuard no_grad;
  for (auto& weight : model.parameters()) weight.add_(0.15 * torch::randn_like(weight));
  model.eval();
}

BertOptions exported_bert(const std::string& mixer) {
  auto options = test::tiny_bert(mixer);
  options.vocab = 25;
  options.initial_deviation = 0.2;
  return options;
}

ExportedModel masked_lm(const BertOptions& options, const Tokenizer& tokenizer) {
  torch::manual_seed(3);
  ExportedModel model;
  model.masked_lm = BertForMaskedLM(options);
  shake(*model.masked_lm);
  model.tokenizer = &tokenizer;
  model.card = "card";
  return model;
}

ExportedModel classifier(const std::string& kind, ClassifierOptions options,
                         const Tokenizer& tokenizer) {
  torch::manual_seed(4);
  ExportedModel model;
  model.classifier.emplace();
  model.classifier->task = "task";
  model.classifier->kind = kind;
  if (kind != "score" && kind != "pairs")
    for (int64_t i = 0; i < options.outputs; ++i)
      model.classifier->labels.push_back("label " + std::to_string(i));
  if (kind == "labels") model.classifier->thresholds.assign(options.outputs, 0.25);
  model.classifier->model = SequenceClassifier(exported_bert("hydra"), options);
  shake(*model.classifier->model);
  model.tokenizer = &tokenizer;
  model.card = "card";
  return model;
}

struct PaddedBatch {
  torch::Tensor ids, types, mask;  // (B, L) int64
};

// Lengths around the chunks of the scan, with padding on the right, on the left and on both sides.
PaddedBatch awkward_batch(int64_t vocab) {
  const std::vector<std::pair<int64_t, int64_t>> rows{
      // first place, length
      {0, 1}, {5, 2}, {0, 63}, {9, 64}, {1, 65}, {0, 133}, {3, 130}, {66, 67}};
  const auto B = std::ssize(rows), L = int64_t{133};
  torch::manual_seed(5);
  PaddedBatch batch{torch::randint(5, vocab, {B, L}, torch::kInt64),
                    torch::randint(0, 2, {B, L}, torch::kInt64),
                    torch::zeros({B, L}, torch::kInt64)};
  for (int64_t b = 0; b < B; ++b) batch.mask[b].narrow(0, rows[b].first, rows[b].second).fill_(1);
  return batch;
}

// Writes the folder, and the model's outputs for a batch beside it.
void export_with_cases(const std::filesystem::path& folder, const ExportedModel& model) {
  export_folder(folder, model);
  const torch::NoGradGuard no_grad;
  const auto batch = awkward_batch(model.encoder().vocab);
  const auto layout = Layout::padded(batch.mask);
  const auto expected =
      model.classifier
          ? model.classifier->kind == "pairs"
                ? model.classifier->model->encode(batch.ids, batch.types, layout)
                : model.classifier->model->forward(batch.ids, batch.types, layout)
          : model.masked_lm->predict(model.masked_lm->encode(batch.ids, batch.types, layout));
  save_tensors(
      folder / "cases.safetensors",
      {{"ids", batch.ids}, {"types", batch.types}, {"mask", batch.mask}, {"expected", expected}});
}

std::map<std::string, BertOptions> exported_options() {
  std::map<std::string, BertOptions> all;
  for (const std::string mixer : {"add", "attention", "attention_causal", "attention_dd", "concat",
                                  "hydra", "mult", "quasiseparable_dd", "semiseparable"})
    all[mixer] = exported_bert(mixer);
  auto& grouped = all["hydra_groups"] = exported_bert("hydra");
  grouped.block.bias = true;
  grouped.block.mixer_options.groups = 2;
  grouped.block.mixer_options.learn_initial_states = true;
  auto& limited = all["hydra_limits"] = exported_bert("hydra");
  limited.block.mixer_options.dt_limit_low = 0.3;
  limited.block.mixer_options.dt_limit_high = 0.9;
  limited.norm = "pre";
  limited.mlp = {.kind = "glu", .width = 20, .bias = false};
  limited.block.d_conv = 4;
  limited.block.causal_conv = true;
  limited.block.conv_bias = false;
  auto& bare = all["semiseparable_no_skip"] = exported_bert("semiseparable");
  bare.block.mixer_options.skip = false;
  auto& plain = all["hydra_plain"] = exported_bert("hydra");
  plain.block.style = "plain";
  auto& bert = all["bert"] = exported_bert("attention");
  bert.block.style = "plain";
  bert.block.expand = 1;
  bert.block.bias = true;
  bert.positions = 140;
  bert.norm_eps = 1e-3;
  bert.embedding_norm_eps = 1e-2;
  bert.pooler = true;
  bert.mlp = {.kind = "gelu", .width = 24};
  return all;
}

TEST(ExportFolder, PyTorchComputesTheSame) {
  if (test::run_program("/usr/bin/python3", "-c 'import torch'").code != 0)
    GTEST_SKIP() << "Python has no torch: apt-get install python3-torch";
  const test::TemporaryFolder folder;
  const auto tokenizer = test::small_tokenizer();
  for (const auto& [name, options] : exported_options())
    export_with_cases(folder / name, masked_lm(options, tokenizer));
  for (const auto& [kind, options] : {std::pair{"classes", ClassifierOptions{.outputs = 3}},
                                      {"score", {.outputs = 1, .pooling = "mean"}},
                                      {"labels", {.outputs = 4}},
                                      {"tokens", {.outputs = 5, .pooling = "tokens"}},
                                      {"pairs", {.outputs = 0, .pooling = "mean", .dropout = 0}}})
    export_with_cases(folder / kind, classifier(kind, options, tokenizer));
  const auto result =
      test::run_program("/usr/bin/python3",
                        std::string(HYDRAMIX_SOURCE_DIR "/tests/python/exported_models_check.py ") +
                            folder.path().string(),
                        "PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1");
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

TEST(ExportFolder, HasTheKeysThatTransformersExpects) {
  const test::TemporaryFolder folder;
  const auto tokenizer = test::small_tokenizer();
  export_folder(folder / "lm", masked_lm(exported_bert("hydra"), tokenizer));
  const auto config = json_in(folder / "lm" / "config.json");
  EXPECT_EQ(config["format"], "hydramix-model");
  EXPECT_EQ(config["model_type"], "hydramix");
  EXPECT_EQ(config["architectures"], Json({"HydraMixForMaskedLM"}));
  EXPECT_EQ(config["auto_map"]["AutoConfig"], "configuration_hydramix.HydraMixConfig");
  EXPECT_EQ(config["auto_map"]["AutoModelForMaskedLM"], "modeling_hydramix.HydraMixForMaskedLM");
  EXPECT_EQ(config["vocab_size"], 25);
  EXPECT_EQ(config["hidden_size"], 16);
  EXPECT_EQ(config["num_hidden_layers"], 2);
  EXPECT_EQ(config["pad_token_id"], 0);
  EXPECT_FALSE(config.contains("id2label"));
  EXPECT_EQ(load_tensors(folder / "lm" / "model.safetensors").metadata.at("format"), "pt");
  EXPECT_EQ(json_in(folder / "lm" / "tokenizer_config.json")["mask_token"], "[MASK]");
  EXPECT_EQ(json_in(folder / "lm" / "tokenizer_config.json")["model_max_length"], 512);
  const auto pooling = json_in(folder / "lm" / "1_Pooling" / "config.json");
  EXPECT_EQ(pooling["pooling_mode_mean_tokens"], true);
  EXPECT_EQ(pooling["word_embedding_dimension"], 16);
  EXPECT_EQ(json_in(folder / "lm" / "modules.json").size(), 2U);
  EXPECT_EQ(read_file(folder / "lm" / "README.md"), "card");

  export_folder(folder / "classes",
                classifier("labels", {.outputs = 2, .max_length = 99}, tokenizer));
  const auto classes = json_in(folder / "classes" / "config.json");
  EXPECT_EQ(classes["architectures"], Json({"HydraMixForSequenceClassification"}));
  EXPECT_EQ(classes["id2label"], (Json{{"0", "label 0"}, {"1", "label 1"}}));
  EXPECT_EQ(classes["label2id"], (Json{{"label 0", 0}, {"label 1", 1}}));
  EXPECT_EQ(classes["problem_type"], "multi_label_classification");
  EXPECT_EQ(json_in(folder / "classes" / "sentence_bert_config.json")["max_seq_length"], 99);
  EXPECT_EQ(json_in(folder / "classes" / "1_Pooling" / "config.json")["pooling_mode_cls_token"],
            true);
}

TEST(ExportFolder, IsAModelFolderOfOurs) {
  const test::TemporaryFolder folder;
  const auto tokenizer = test::small_tokenizer();
  const auto model = masked_lm(exported_bert("hydra"), tokenizer);
  export_folder(folder.path(), model);
  const auto again = load_model(folder.path());
  EXPECT_EQ(to_json(again->options()), to_json(model.masked_lm->options()));
  const auto batch = awkward_batch(25);
  EXPECT_TRUE(torch::equal(again->encode(batch.ids, batch.types),
                           model.masked_lm->encode(batch.ids, batch.types)));
  EXPECT_EQ(load_model_tokenizer(folder.path()).fingerprint(), tokenizer.fingerprint());
}

// As save_pretrained does: sorted keys, more of them, and metadata with the format alone.
void save_again(const std::filesystem::path& folder, const std::string& without_prefix = "") {
  auto config = nlohmann::json::parse(read_file(folder / "config.json"));
  config["transformers_version"] = "5.17.0";
  config["dtype"] = "float32";
  write_text(folder / "config.json", config.dump(2));
  std::map<std::string, torch::Tensor> weights;
  for (const auto& [name, weight] : load_tensors(folder / "model.safetensors").tensors)
    weights[name.starts_with(without_prefix) ? name.substr(without_prefix.size()) : name] =
        weight.clone();
  save_tensors(folder / "model.safetensors", weights, {{"format", "pt"}});
}

TEST(ExportFolder, OpensAfterHuggingFaceSavedItAgain) {
  const test::TemporaryFolder folder;
  const auto tokenizer = test::small_tokenizer();
  const auto vectors = [&] { return TextEmbedder::open(folder.path()).embed("w1 w2 w3"); };
  export_folder(folder.path(), masked_lm(exported_bert("hydra"), tokenizer));
  const auto before = vectors();
  save_again(folder.path());
  EXPECT_EQ(vectors(), before);
  // An encoder alone, as sentence-transformers saves it, has no prefix before its names.
  const auto pairs =
      classifier("pairs", {.outputs = 0, .pooling = "mean", .dropout = 0}, tokenizer);
  export_folder(folder.path(), pairs);
  const auto encoder = vectors();
  save_again(folder.path(), "bert.");
  EXPECT_EQ(vectors(), encoder);
}

TEST(ExportFolder, AConfigMayGetOtherKeysButKeepsOurs) {
  const test::TemporaryFolder folder;
  const auto tokenizer = test::small_tokenizer();
  export_folder(folder.path(), masked_lm(exported_bert("hydra"), tokenizer));
  const auto path = folder / "config.json";
  auto config = json_in(path);
  config["transformers_version"] = "5.17.0";
  config["hidden_size"] = 17;
  write_text(path, config.dump());
  load_model(folder.path());
  config["model"]["norm"] = "pre";
  write_text(path, config.dump());
  EXPECT_THROW_WITH(load_model(folder.path()), Error, "saved with another config");
}

TEST(ExportFolder, RefusesWhatThePyTorchModelLacks) {
  auto options = exported_bert("fnet");
  EXPECT_THROW_WITH(check_exportable(options, "runs/x"), Error, "runs/x: its mixer is 'fnet'");
  EXPECT_THROW_WITH(check_exportable(options, "runs/x"), Error, "hydra");
  options = exported_bert("attention");
  options.block.style = "gated";
  EXPECT_THROW_WITH(check_exportable(options, "x"), Error, "style 'gated'");
  options = exported_bert("hydra");
  options.mlp = {.kind = "gelu", .width = 16, .blocks = 2};
  EXPECT_THROW_WITH(check_exportable(options, "x"), Error, "2 blocks");
  options.mlp.kind = "none";
  EXPECT_NO_THROW(check_exportable(options, "x"));
}

TEST(ModelCard, TellsDataMetricsAndCommit) {
  const auto tokenizer = test::small_tokenizer();
  const auto model = masked_lm(exported_bert("hydra"), tokenizer);
  TrainingFacts facts{{{"data", "a|b\nc"}}, {{"loss", "1.25"}}, "0.1.0", "abcdef123456"};
  const auto card = model_card("my model", model, facts);
  EXPECT_TRUE(card.starts_with("---\nlibrary_name: transformers\n"));
  EXPECT_TRUE(contains(card, "# my model"));
  EXPECT_TRUE(contains(card, "pipeline_tag: fill-mask"));
  EXPECT_TRUE(contains(card, "| mixer | hydra |"));
  EXPECT_TRUE(contains(card, "| data | a\\|b c |"));
  EXPECT_TRUE(contains(card, "| loss | 1.25 |"));
  EXPECT_TRUE(contains(card, "hydramix 0.1.0, commit abcdef123456."));
  EXPECT_TRUE(contains(model_card("m", model, {}), "without the folder of its training run"));
}

}  // namespace
}  // namespace hydramix
