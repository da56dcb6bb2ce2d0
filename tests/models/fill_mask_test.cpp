// SPDX-License-Identifier: Apache-2.0
#include "hydramix/fill_mask.h"

#include "hydramix/model_folder.h"
#include "hydramix/tokenizer.h"
#include "support/classifiers.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using test::lively_masked_lm;
using test::small_tokenizer;
using test::small_words;

class Filling : public ::testing::Test {
 protected:
  Filling() {
    save_model(folder.path(), lively_masked_lm());
    small_tokenizer().save(folder / "tokenizer.json");
  }
  test::TemporaryFolder folder;
};

TEST_F(Filling, GivesTheLikeliestWordsOfTheModelAtEachMask) {
  const std::string text = "w1 [MASK] w3 w4 [MASK]";
  const auto answer = FillMask::open(folder.path()).fill(text, 3);
  const torch::NoGradGuard no_grad;
  auto model = lively_masked_lm();
  model->eval();
  const auto tokenizer = small_tokenizer();
  const auto ids = torch::tensor(tokenizer.encode(text).ids, torch::kInt32).to(torch::kInt64);
  const auto shares = model->predict(model->encode(ids.unsqueeze(0), {}))[0].softmax(1);
  ASSERT_EQ(answer.masks.size(), 2u);
  for (const auto& [mask, place] : {std::pair{0, 2}, {1, 5}}) {  // after [CLS]
    const auto& words = answer.masks[static_cast<std::size_t>(mask)];
    ASSERT_EQ(words.size(), 3u);
    EXPECT_EQ(words[0].id, shares[place].argmax().item<int64_t>());
    for (const auto& word : words) {
      EXPECT_EQ(word.token, tokenizer.token(word.id));
      EXPECT_NEAR(word.probability, shares[place][word.id].item<double>(), 1e-6);
    }
    EXPECT_GE(words[0].probability, words[1].probability);
    EXPECT_GE(words[1].probability, words[2].probability);
  }
  EXPECT_EQ(answer.tokens.count, 7);
  EXPECT_EQ(FillMask::open(folder.path()).fill(text, 1000).masks[0].size(), 25u) << "all words";
}

TEST_F(Filling, HasTheSameBitsWhateverIsFilledTogether) {
  std::vector<std::string> texts;  // two batches; one text has more masks than fit one product
  for (int64_t i = 0; i < 60; ++i)
    texts.push_back(small_words(1 + i * 37 % 150, i) + "[MASK] " + small_words(3, i));
  for (int64_t i = 0; i < 150; ++i) texts[7] += " [MASK]";
  const auto model = FillMask::open(folder.path(), {.batch_tokens = 4096});
  const auto together = model.fill(texts, 2);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto alone = model.fill(texts[i], 2);
    ASSERT_EQ(together[i].masks.size(), i == 7 ? 151u : 1u);
    for (std::size_t m = 0; m < alone.masks.size(); ++m)
      for (std::size_t k = 0; k < 2; ++k) {
        EXPECT_EQ(together[i].masks[m][k].id, alone.masks[m][k].id) << "text " << i;
        EXPECT_EQ(together[i].masks[m][k].probability, alone.masks[m][k].probability)
            << "text " << i;
      }
  }
}

TEST_F(Filling, FaultsNameTheText) {
  const auto model = FillMask::open(folder.path());
  EXPECT_EQ(model.max_length(), 0);
  const std::vector<std::string> none{"[MASK]", "w1"};
  EXPECT_THROW_WITH(model.fill(none), TextError, "text 2 of 2: has no [MASK]");
  const auto short_model = FillMask::open(folder.path(), {.max_length = 5});
  EXPECT_THROW_WITH(short_model.fill("[MASK] w1 w2 w3 [MASK]"), TextError,
                    "a [MASK] lies after the first 5 tokens");
  EXPECT_TRUE(short_model.fill("[MASK] w1 w2 w3").tokens.cut);
  EXPECT_THROW_WITH(model.fill("[MASK]", 0), UsageError, "top is 0");
  save_classifier(folder.path(), test::lively_classifier(2), "task", {"a", "b"});
  EXPECT_THROW_WITH(FillMask::open(folder.path()), Error, "this is a classifier");
}

}  // namespace
}  // namespace hydramix
