// SPDX-License-Identifier: Apache-2.0
#include "hydramix/text_tagger.h"

#include "hydramix/model_folder.h"
#include "hydramix/text_classifier.h"
#include "hydramix/tokenizer.h"
#include "models/word_pieces.h"
#include "support/expect.h"
#include "support/models.h"

namespace hydramix {
namespace {

using Words = TextTagger::Words;

const std::vector<std::string> kTags{"O", "B-PER", "I-PER"};

Tokenizer tagged_tokenizer() {
  return Tokenizer::from_tokens(
      {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##b", "##c"}, {}, "test");
}

SequenceClassifier lively_tagger() {
  torch::manual_seed(13);
  auto options = test::tiny_bert("hydra");
  options.vocab = 10;
  options.initial_deviation = 0.3;
  SequenceClassifier model(options, ClassifierOptions{.outputs = 3, .pooling = "tokens"});
  model->eval();
  return model;
}

class Tagging : public ::testing::Test {
 protected:
  Tagging() {
    save_classifier(folder.path(), lively_tagger(),
                    ClassifierTask{.task = "names", .labels = kTags, .kind = "tokens"});
    tagged_tokenizer().save(folder / "tokenizer.json");
  }
  test::TemporaryFolder folder;
};

TEST_F(Tagging, AWordHasTheTagOfItsFirstPiece) {
  const auto tagged = TextTagger::open(folder.path()).tag(Words{"ab", "c", "b"});
  const std::vector<int32_t> ids{2, 5, 8, 7, 6, 3};  // [CLS] a ##b c b [SEP]
  const torch::NoGradGuard no_grad;
  const auto shares =
      lively_tagger()
          ->forward(torch::tensor(ids, torch::kInt32).to(torch::kInt64).unsqueeze(0), {})
          .to(torch::kFloat64)
          .softmax(1);
  ASSERT_EQ(tagged.size(), 3u);
  const int64_t places[] = {1, 3, 4};
  for (std::size_t w = 0; w < 3; ++w) {
    const auto [share, number] = shares[places[w]].max(0);
    EXPECT_EQ(tagged[w].tag, kTags[static_cast<std::size_t>(number.item<int64_t>())]);
    EXPECT_NEAR(tagged[w].probability, share.item<double>(), 1e-6);
  }
}

TEST_F(Tagging, HasTheSameBitsWhateverIsTaggedTogether) {
  std::vector<Words> sentences;
  for (std::size_t i = 0; i < 40; ++i) {
    sentences.emplace_back();
    for (std::size_t k = 0; k <= i * 7 % 23; ++k)
      sentences.back().push_back((i + k) % 3 == 0 ? "abc" : (i * k) % 2 == 0 ? "b" : "ca");
  }
  const auto tagger = TextTagger::open(folder.path(), {.batch_tokens = 128});
  const auto together = tagger.tag(sentences);
  ASSERT_EQ(together.size(), sentences.size());
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    const auto alone = tagger.tag(sentences[i]);
    ASSERT_EQ(together[i].size(), sentences[i].size());
    for (std::size_t w = 0; w < alone.size(); ++w) {
      EXPECT_EQ(together[i][w].tag, alone[w].tag) << "sentence " << i;
      EXPECT_EQ(together[i][w].probability, alone[w].probability) << "sentence " << i;
    }
  }
}

// "abc" does not fit into five tokens, and a control character has no token.
TEST_F(Tagging, WordsWithoutATokenHaveNoTag) {
  const Words sentence{"a", "\x01", "abc", "b"};
  const auto pieces = word_pieces(sentence, tagged_tokenizer(), 5);
  EXPECT_EQ(pieces.ids, (std::vector<int32_t>{2, 5, 3}));
  EXPECT_EQ(pieces.places, (std::vector<int64_t>{1, -1, -1, -1}));
  const auto tagged = TextTagger::open(folder.path(), {.max_length = 5}).tag(sentence);
  ASSERT_EQ(tagged.size(), 4u);
  EXPECT_NE(tagged[0].tag, "");
  for (std::size_t w = 1; w < 4; ++w) EXPECT_EQ(tagged[w].tag, "") << w;
  EXPECT_EQ(word_pieces(sentence, tagged_tokenizer(), 0).places,
            (std::vector<int64_t>{1, -1, 2, 5}));
}

TEST_F(Tagging, FaultsNameTheSentenceOrTheFolder) {
  const std::vector<Words> sentences{{"a"}, {"b", "\xff"}};
  EXPECT_THROW_WITH(TextTagger::open(folder.path()).tag(sentences), TextError, "text 2 of 2: ");
  EXPECT_THROW_WITH(TextClassifier::open(folder.path()), Error, "Open it as a TextTagger");
  save_classifier(folder.path(),
                  SequenceClassifier(lively_tagger()->encoder_options(), ClassifierOptions{}),
                  "task", {"x", "y"});
  EXPECT_THROW_WITH(TextTagger::open(folder.path()), Error,
                    "was trained for classes, not for tags of words");
}

}  // namespace
}  // namespace hydramix
