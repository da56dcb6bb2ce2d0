// SPDX-License-Identifier: Apache-2.0
#include "hydramix/text_embedder.h"

#include <cmath>
#include <limits>

#include "hydramix/model_folder.h"
#include "hydramix/tokenizer.h"
#include "support/classifiers.h"
#include "support/expect.h"
#include "support/threads.h"

namespace hydramix {
namespace {

using test::lively_classifier;
using test::lively_masked_lm;
using test::small_tokenizer;
using test::small_words;

// The folder of a pretrained model.
class Embedding : public ::testing::Test {
 protected:
  Embedding() {
    save_model(folder.path(), lively_masked_lm());
    small_tokenizer().save(folder / "tokenizer.json");
  }
  TextEmbedder open(const TextEmbedder::Options& options) const {
    return TextEmbedder::open(folder.path(), options);
  }
  test::TemporaryFolder folder;
};

// The definition: (1, n, d_model) of the model alone, all tokens with [CLS] and [SEP].
torch::Tensor hidden(const std::string& text) {
  const torch::NoGradGuard no_grad;
  auto model = lively_masked_lm();
  model->eval();
  const auto ids = small_tokenizer().encode(text).ids;
  return model->encode(torch::tensor(ids, torch::kInt32).to(torch::kInt64).unsqueeze(0), {})[0];
}

torch::Tensor tensor_of(const std::vector<float>& vector) { return torch::tensor(vector); }

TEST_F(Embedding, IsTheMeanOverAllTokensOrTheFirst) {
  const std::string text = "w1 w2 w3 w19";
  const auto states = hidden(text);
  EXPECT_EQ(open({}).pooling(), "mean");
  EXPECT_TRUE(torch::allclose(tensor_of(open({}).embed(text)), states.mean(0), 1e-5, 1e-6));
  EXPECT_TRUE(torch::equal(tensor_of(open({.pooling = "cls"}).embed(text)), states[0]));
  const auto unit = tensor_of(open({.normalize = true}).embed(text));
  EXPECT_NEAR(unit.norm().item<double>(), 1, 1e-6);  // rounding of 16 entries
  EXPECT_TRUE(torch::allclose(unit * states.mean(0).norm(), states.mean(0), 1e-5, 1e-6));
}

TEST_F(Embedding, HasTheSameBitsWhateverIsEmbeddedTogether) {
  std::vector<std::string> texts;  // 60 texts of about 80 tokens: two batches
  for (int64_t i = 0; i < 60; ++i) texts.push_back(small_words(1 + i * 37 % 150, i));
  for (const char* pooling : {"mean", "cls"}) {
    const auto embedder =
        open({.pooling = pooling, .normalize = true, .model = {.batch_tokens = 4096}});
    const auto together = embedder.embed(texts);
    ASSERT_EQ(together.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(together[i].vector, embedder.embed(texts[i])) << pooling << ", text " << i;
      EXPECT_NE(together[i].vector, together[i == 0 ? 1 : i - 1].vector);
    }
    EXPECT_TRUE(embedder.embed(std::span<const std::string>()).empty());
  }
  test::same_for_any_threads(
      [&] { return std::vector<torch::Tensor>{tensor_of(open({}).embed(small_words(400, 3)))}; });
}

TEST_F(Embedding, TakesTheEncoderOfAClassifier) {
  const test::TemporaryFolder other;
  save_classifier(other.path(), lively_classifier(3), "task", {"a", "b", "c"});
  small_tokenizer().save(other / "tokenizer.json");
  const auto embedder = TextEmbedder::open(other.path());
  EXPECT_EQ(embedder.pooling(), "cls");  // the classifier's own
  EXPECT_EQ(embedder.width(), 16);
  const torch::NoGradGuard no_grad;
  auto model = lively_classifier(3);
  model->eval();
  const auto ids = torch::tensor(small_tokenizer().encode("w4 w5").ids, torch::kInt32);
  const auto states = model->encode(ids.to(torch::kInt64).unsqueeze(0), {})[0];
  EXPECT_TRUE(torch::equal(tensor_of(embedder.embed("w4 w5")), states[0]));
}

TEST_F(Embedding, ReportsCutAndUnknownWords) {
  const auto embedder = open({.model = {.max_length = 6}});
  EXPECT_EQ(embedder.max_length(), 6);
  EXPECT_EQ(open({}).max_length(), 512);
  const std::vector<std::string> texts{"w1 stone w2", "w1 w2 w3 w4 w5", ""};
  const auto results = embedder.embed(texts);
  EXPECT_EQ(results[0].tokens.unknown, 1);
  EXPECT_FALSE(results[0].tokens.cut);
  EXPECT_TRUE(results[1].tokens.cut);
  EXPECT_EQ(results[1].vector, embedder.embed("w1 w2 w3 w4"));
  EXPECT_EQ(results[2].tokens.count, 2) << "[CLS] [SEP]";
}

TEST_F(Embedding, FaultsNameTheTextOrTheOption) {
  const std::vector<std::string> bad{"w1", "w2", "w3 \xff"};
  EXPECT_THROW_WITH(open({}).embed(bad), TextError, "text 3 of 3: ");
  EXPECT_THROW_WITH(open({.pooling = "max"}), UsageError, "'max'; expected 'cls' or 'mean'");
  EXPECT_THROW_WITH(open({.model = {.device = "gpu"}}), UsageError,
                    "'gpu'; expected 'auto', 'cpu' or 'cuda'");
  EXPECT_THROW_WITH(open({.model = {.max_length = 2}}), UsageError, "max_length is 2");
  EXPECT_THROW_WITH(TextEmbedder::open(folder / "absent"), Error, "absent/config.json");
  auto model = lively_masked_lm();
  const torch::NoGradGuard no_grad;
  model->named_parameters()["bert.embeddings.word_embeddings.weight"][24].fill_(
      std::numeric_limits<float>::max());  // w19
  save_model(folder.path(), model);
  const std::vector<std::string> huge{"w1", "w19"};
  EXPECT_THROW_WITH(open({}).embed(huge), TextError, "text 2 of 2: its vector is not finite");
}

}  // namespace
}  // namespace hydramix
