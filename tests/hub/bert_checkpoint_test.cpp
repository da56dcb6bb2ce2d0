// SPDX-License-Identifier: Apache-2.0
// BERT's checkpoints: against BERT's equations, written here with its own weight names, and what is
// refused.
#include "hub/bert_checkpoint.h"

#include <cmath>
#include <fstream>

#include "hydramix/error.h"
#include "hydramix/tensor_file.h"
#include "support/classifiers.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;
using TheirWeights = std::map<std::string, torch::Tensor>;

constexpr int64_t kVocab = 27, kWidth = 12, kInner = 20, kLayers = 2, kHeads = 3, kPositions = 19;
constexpr double kEps = 1e-4;  // large enough that a norm with another one is told apart

Json bert_config(const std::string& architecture) {
  return {{"model_type", "bert"},         {"architectures", {architecture}},
          {"vocab_size", kVocab},         {"hidden_size", kWidth},
          {"num_hidden_layers", kLayers}, {"num_attention_heads", kHeads},
          {"intermediate_size", kInner},  {"max_position_embeddings", kPositions},
          {"type_vocab_size", 2},         {"layer_norm_eps", kEps},
          {"hidden_act", "gelu"}};
}

class TheirBert {
 public:
  TheirBert() {
    torch::manual_seed(6);
    matrix("bert.embeddings.word_embeddings", kVocab, kWidth);
    matrix("bert.embeddings.position_embeddings", kPositions, kWidth);
    matrix("bert.embeddings.token_type_embeddings", 2, kWidth);
    norm("bert.embeddings.LayerNorm");
    for (int64_t i = 0; i < kLayers; ++i) {
      for (const char* part : {"query", "key", "value"})
        linear(at(i, "attention.self.") + part, kWidth, kWidth);
      linear(at(i, "attention.output.dense"), kWidth, kWidth);
      norm(at(i, "attention.output.LayerNorm"));
      linear(at(i, "intermediate.dense"), kInner, kWidth);
      linear(at(i, "output.dense"), kWidth, kInner);
      norm(at(i, "output.LayerNorm"));
    }
    linear("bert.pooler.dense", kWidth, kWidth);
  }
  void add_masked_lm_head() {
    linear("cls.predictions.transform.dense", kWidth, kWidth);
    norm("cls.predictions.transform.LayerNorm");
    weights["cls.predictions.bias"] = torch::randn({kVocab});
  }
  void add_classifier(int64_t outputs) { linear("classifier", outputs, kWidth); }

  // Devlin et al. 2019: embeddings, then softmax attention and an MLP with residual sums and norms.
  torch::Tensor hidden(const torch::Tensor& ids, const torch::Tensor& types) const {
    const int64_t L = ids.size(1);
    auto x = weights.at("bert.embeddings.word_embeddings.weight").index({ids}) +
             weights.at("bert.embeddings.token_type_embeddings.weight").index({types}) +
             weights.at("bert.embeddings.position_embeddings.weight").narrow(0, 0, L);
    x = normed("bert.embeddings.LayerNorm", x);
    for (int64_t i = 0; i < kLayers; ++i) {
      std::vector<torch::Tensor> heads;
      const auto q = applied(at(i, "attention.self.query"), x).chunk(kHeads, -1),
                 k = applied(at(i, "attention.self.key"), x).chunk(kHeads, -1),
                 v = applied(at(i, "attention.self.value"), x).chunk(kHeads, -1);
      for (int64_t h = 0; h < kHeads; ++h) {
        const auto scores = torch::matmul(q[h], k[h].transpose(1, 2));
        heads.push_back(torch::matmul((scores / std::sqrt(kWidth / kHeads)).softmax(-1), v[h]));
      }
      x = normed(at(i, "attention.output.LayerNorm"),
                 x + applied(at(i, "attention.output.dense"), torch::cat(heads, -1)));
      const auto inner = gelu(applied(at(i, "intermediate.dense"), x));
      x = normed(at(i, "output.LayerNorm"), x + applied(at(i, "output.dense"), inner));
    }
    return x;
  }
  torch::Tensor logits(const torch::Tensor& x) const {
    const auto rows = normed("cls.predictions.transform.LayerNorm",
                             gelu(applied("cls.predictions.transform.dense", x)));
    return torch::matmul(rows, weights.at("bert.embeddings.word_embeddings.weight").t()) +
           weights.at("cls.predictions.bias");
  }
  torch::Tensor classes(const torch::Tensor& x) const {
    return applied("classifier", torch::tanh(applied("bert.pooler.dense", x.select(1, 0))));
  }

  TheirWeights weights;

 private:
  static std::string at(int64_t layer, const std::string& name) {
    return "bert.encoder.layer." + std::to_string(layer) + "." + name;
  }
  void matrix(const std::string& name, int64_t rows, int64_t columns) {
    weights[name + ".weight"] = 0.3 * torch::randn({rows, columns});
  }
  void linear(const std::string& name, int64_t out, int64_t in) {
    matrix(name, out, in);
    weights[name + ".bias"] = 0.3 * torch::randn({out});
  }
  void norm(const std::string& name) {
    weights[name + ".weight"] = 1 + 0.3 * torch::randn({kWidth});
    weights[name + ".bias"] = 0.3 * torch::randn({kWidth});
  }
  torch::Tensor applied(const std::string& name, const torch::Tensor& x) const {
    return torch::matmul(x, weights.at(name + ".weight").t()) + weights.at(name + ".bias");
  }
  torch::Tensor normed(const std::string& name, const torch::Tensor& x) const {
    const auto centred = x - x.mean(-1, true);
    const auto variance = centred.pow(2).mean(-1, true);
    return centred / (variance + kEps).sqrt() * weights.at(name + ".weight") +
           weights.at(name + ".bias");
  }
  static torch::Tensor gelu(const torch::Tensor& x) {
    return 0.5 * x * (1 + torch::erf(x / std::sqrt(2.0)));
  }
};

void write_bert(const std::filesystem::path& folder, const Json& config,
                const TheirWeights& weights) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << config.dump(2);
  save_tensors(folder / "model.safetensors", weights, {{"format", "pt"}});
  const auto tokenizer = test::small_tokenizer();
  std::ofstream vocabulary(folder / "vocab.txt");
  for (int32_t i = 0; i < tokenizer.size(); ++i) vocabulary << tokenizer.token(i) << "\n";
}

struct Ids {
  torch::Tensor ids = torch::randint(kVocab, {3, 11}, torch::kInt64),
                types = torch::randint(2, {3, 11}, torch::kInt64);
};

void expect_near(const torch::Tensor& ours, const torch::Tensor& theirs) {
  ASSERT_EQ(ours.sizes(), theirs.sizes());
  // Two float32 computations of numbers of about 10.
  EXPECT_LE((ours - theirs).abs().max().item<double>(), 1e-5 * theirs.abs().max().item<double>());
}

TEST(BertCheckpoint, MaskedLmHasTheSameLogits) {
  const torch::NoGradGuard no_grad;
  const test::TemporaryFolder folder;
  TheirBert bert;
  bert.add_masked_lm_head();
  auto weights = bert.weights;
  weights["cls.predictions.decoder.weight"] = weights["bert.embeddings.word_embeddings.weight"];
  weights["cls.predictions.decoder.bias"] = weights["cls.predictions.bias"];
  weights["cls.seq_relationship.weight"] = torch::randn({2, kWidth});
  weights["bert.embeddings.position_ids"] = torch::arange(kPositions).unsqueeze(0);
  write_bert(folder.path(), bert_config("BertForMaskedLM"), weights);
  const auto imported = import_bert(folder.path());
  const Ids batch;
  const auto x = imported.masked_lm->encode(batch.ids, batch.types);
  expect_near(imported.masked_lm->predict(x), bert.logits(bert.hidden(batch.ids, batch.types)));
  EXPECT_EQ(imported.notes.size(), 2U);  // the next sentence, the pooler
  EXPECT_EQ(imported.tokenizer.size(), test::small_tokenizer().size());
}

TEST(BertCheckpoint, ClassifierHasTheSameLogitsAndLabels) {
  const torch::NoGradGuard no_grad;
  const test::TemporaryFolder folder;
  TheirBert bert;
  bert.add_classifier(3);
  auto config = bert_config("BertForSequenceClassification");
  config["id2label"] = {{"0", "bad"}, {"1", "fair"}, {"2", "good"}};
  write_bert(folder.path(), config, bert.weights);
  const auto imported = import_bert(folder.path());
  EXPECT_EQ(imported.classifier->labels, (std::vector<std::string>{"bad", "fair", "good"}));
  EXPECT_EQ(imported.classifier->kind, "classes");
  const Ids batch;
  expect_near(imported.classifier->model->forward(batch.ids, batch.types),
              bert.classes(bert.hidden(batch.ids, batch.types)));

  config["problem_type"] = "multi_label_classification";
  write_bert(folder.path(), config, bert.weights);
  EXPECT_EQ(import_bert(folder.path()).classifier->kind, "labels");
  config.erase("problem_type");
  config["id2label"] = {{"0", "LABEL_0"}};
  TheirBert score;
  score.add_classifier(1);
  write_bert(folder.path(), config, score.weights);
  EXPECT_EQ(import_bert(folder.path()).classifier->kind, "score");
}

TEST(BertCheckpoint, AnEncoderAloneGivesVectors) {
  const torch::NoGradGuard no_grad;
  const test::TemporaryFolder folder;
  const TheirBert bert;
  // As BertModel saves it, with the names of old checkpoints for the norms.
  TheirWeights weights;
  for (const auto& [name, weight] : bert.weights) {
    std::string old = name.substr(std::string("bert.").size());
    if (old.ends_with("LayerNorm.weight")) old.replace(old.size() - 6, 6, "gamma");
    if (old.ends_with("LayerNorm.bias")) old.replace(old.size() - 4, 4, "beta");
    weights[old] = weight;
  }
  write_bert(folder.path(), bert_config("BertModel"), weights);
  std::filesystem::create_directories(folder / "1_Pooling");
  std::ofstream(folder / "1_Pooling" / "config.json") << R"({"pooling_mode_cls_token": true})";
  std::ofstream(folder / "sentence_bert_config.json") << R"({"max_seq_length": 17})";
  const auto imported = import_bert(folder.path());
  EXPECT_EQ(imported.classifier->kind, "pairs");
  EXPECT_EQ(imported.classifier->model->options().pooling, "cls");
  EXPECT_EQ(imported.classifier->model->options().max_length, 17);
  const Ids batch;
  expect_near(imported.classifier->model->encode(batch.ids, batch.types),
              bert.hidden(batch.ids, batch.types));
}

TEST(BertCheckpoint, IsSavedAndOpensAgain) {
  const torch::NoGradGuard no_grad;
  const test::TemporaryFolder folder;
  TheirBert bert;
  bert.add_masked_lm_head();
  write_bert(folder / "theirs", bert_config("BertForMaskedLM"), bert.weights);
  const auto imported = import_bert(folder / "theirs");
  save_model(folder / "ours", imported.masked_lm, &imported.tokenizer);
  const Ids batch;
  auto again = load_model(folder / "ours");
  again->eval();
  EXPECT_TRUE(torch::equal(again->encode(batch.ids, batch.types),
                           imported.masked_lm->encode(batch.ids, batch.types)));
}

TEST(BertCheckpoint, OtherModelsAreRefusedByName) {
  const test::TemporaryFolder folder;
  TheirBert bert;
  bert.add_masked_lm_head();
  const auto refused = [&](const char* key, const Json& value, const std::string& message) {
    auto config = bert_config("BertForMaskedLM");
    config[key] = value;
    write_bert(folder.path(), config, bert.weights);
    EXPECT_THROW_WITH(import_bert(folder.path()), Error, message);
  };
  refused("model_type", "roberta", "model_type is \"roberta\"");
  refused("model_type", "modernbert", "model_type is \"modernbert\"");
  refused("model_type", "hydramix", "is a model of hydramix");
  refused("model_type", nullptr, "has no 'model_type'");
  refused("architectures", {"BertForQuestionAnswering"}, "\"BertForQuestionAnswering\"");
  refused("hidden_act", "gelu_new", "'hidden_act' is \"gelu_new\"");
  refused("position_embedding_type", "relative_key", "'position_embedding_type'");
  refused("is_decoder", true, "'is_decoder'");
  refused("hidden_size", 13, "not a multiple of num_attention_heads");
  refused("hidden_size", -1, "'hidden_size' is -1");
  refused("hidden_dropout_prob", "much", "'hidden_dropout_prob'");
  refused("num_hidden_layers", 3, "has no weight 'bert.encoder.layer.2.");
  refused("num_hidden_layers", 1 << 25, "config.json");
  refused("vocab_size", 26, "has shape [27, 12]");
  refused("vocab_size", 20, "its tokenizer has 25 tokens");
}

TEST(BertCheckpoint, DamagedFoldersAreRefused) {
  const test::TemporaryFolder folder;
  TheirBert bert;
  bert.add_masked_lm_head();
  const auto config = bert_config("BertForMaskedLM");
  EXPECT_THROW_WITH(import_bert(folder / "nothing"), Error, "is no folder");
  auto weights = bert.weights;
  weights["cls.predictions.decoder.weight"] = torch::zeros({kVocab, kWidth});
  write_bert(folder.path(), config, weights);
  EXPECT_THROW_WITH(import_bert(folder.path()), Error, "one matrix for both");
  weights = bert.weights;
  weights["bert.embeddings.adapter"] = torch::zeros({2});
  write_bert(folder.path(), config, weights);
  EXPECT_THROW_WITH(import_bert(folder.path()), Error, "unexpected \"bert.embeddings.adapter\"");
  weights = bert.weights;
  weights["bert.encoder.layer.0.attention.self.key.bias"] = torch::zeros({2});
  write_bert(folder.path(), config, weights);
  EXPECT_THROW_WITH(import_bert(folder.path()), Error, "expected one shape");
  write_bert(folder.path(), config, bert.weights);
  std::filesystem::remove(folder / "vocab.txt");
  EXPECT_THROW_WITH(import_bert(folder.path()), Error, "neither tokenizer.json nor vocab.txt");
  write_bert(folder.path(), config, bert.weights);
  std::filesystem::rename(folder / "model.safetensors", folder / "part");
  std::ofstream(folder / "model.safetensors.index.json") << "{}";
  EXPECT_THROW_WITH(import_bert(folder.path()), Error, "in several files");
}

}  // namespace
}  // namespace hydramix
