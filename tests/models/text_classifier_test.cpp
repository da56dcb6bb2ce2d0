// SPDX-License-Identifier: Apache-2.0
#include "hydramix/text_classifier.h"

#include <cmath>
#include <fstream>
#include <set>

#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "hydramix/tokenizer.h"
#include "support/classifiers.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using test::lively_classifier;
using test::small_tokenizer;
using Text = TextClassifier::Text;
using Answer = TextClassifier::Answer;

void expect_same(const Answer& a, const Answer& b, const std::string& what) {
  EXPECT_EQ(a.label, b.label) << what;
  EXPECT_NEAR(a.value, b.value, 1e-5) << what;
  ASSERT_EQ(a.probabilities.size(), b.probabilities.size()) << what;
  for (std::size_t k = 0; k < a.probabilities.size(); ++k)
    EXPECT_NEAR(a.probabilities[k], b.probabilities[k], 1e-5) << what;
}

TEST(TextClassifier, AnswersInOrderWhateverIsClassifiedTogether) {
  const test::TemporaryFolder folder;
  for (const int64_t outputs : {3, 1}) {
    const std::vector<std::string> labels =
        outputs == 1 ? std::vector<std::string>{} : std::vector<std::string>{"yes", "no", "maybe"};
    save_classifier(folder.path(), lively_classifier(outputs), "some task", labels);
    small_tokenizer().save(folder / "tokenizer.json");
    const auto classifier = TextClassifier::open(folder.path(), {.batch_tokens = 4096});
    EXPECT_EQ(classifier.task(), "some task");
    EXPECT_EQ(classifier.labels(), labels);
    std::vector<Text> texts;  // 60 texts, 4965 tokens: two batches
    for (int64_t i = 0; i < 60; ++i)
      texts.push_back({test::small_words(1 + i * 37 % 150, i),
                       i % 3 == 0 ? "" : test::small_words(1 + i % 7, i + 5)});
    const auto answers = classifier.classify(texts);
    ASSERT_EQ(answers.size(), texts.size());
    std::set<double> values;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto alone = classifier.classify(texts[i]);
      EXPECT_EQ(answers[i].value, alone.value) << "text " << i;  // bit for bit
      EXPECT_EQ(answers[i].probabilities, alone.probabilities) << "text " << i;
      EXPECT_EQ(answers[i].label, alone.label) << "text " << i;
      values.insert(answers[i].value);
    }
    EXPECT_GT(values.size(), outputs == 1 ? 50u : 1u) << "texts that cannot be told apart";
    EXPECT_TRUE(classifier.classify(std::span<const Text>()).empty());
  }
}

TEST(TextClassifier, IsTheModelOnTheTokenizersIds) {
  const test::TemporaryFolder folder;
  auto model = lively_classifier(2);
  save_classifier(folder.path(), model, "task", {"a", "b"});
  const auto tokenizer = small_tokenizer();
  tokenizer.save(folder / "tokenizer.json");
  const auto classifier = TextClassifier::open(folder.path());
  model->eval();
  const torch::NoGradGuard no_grad;
  for (const Text& text : {Text{"w1 w2 w3", "w4"}, Text{"w1 w2 w3", ""}, Text{"w1 w2 w3 w4"}}) {
    const auto encoding = !text.second ? tokenizer.encode(text.first)
                                       : tokenizer.encode_pair(text.first, *text.second);
    const auto row = [](const std::vector<int32_t>& list) {
      return torch::tensor(list, torch::kInt32).to(torch::kInt64).unsqueeze(0);
    };
    const auto logits = model->forward(row(encoding.ids), row(encoding.type_ids))[0];
    const double first = 1 / (1 + std::exp((logits[1] - logits[0]).item<double>()));
    const auto answer = classifier.classify(text);
    ASSERT_EQ(answer.probabilities.size(), 2u);
    EXPECT_NEAR(answer.probabilities[0], first, 1e-6);
    EXPECT_NEAR(answer.probabilities[1], 1 - first, 1e-6);
    EXPECT_EQ(answer.label, first >= 0.5 ? "a" : "b");
    EXPECT_EQ(answer.value, first >= 0.5 ? 0 : 1);
  }
}

TEST(TextClassifier, LongTextsAreCut) {
  const test::TemporaryFolder folder;
  small_tokenizer().save(folder / "tokenizer.json");
  save_classifier(folder.path(), lively_classifier(2), "task", {"a", "b"});
  const auto classifier = TextClassifier::open(folder.path(), 8);
  EXPECT_EQ(classifier.max_length(), 8);
  expect_same(classifier.classify({"w1 w2 w3 w4 w5 w6 w7 w8 w9"}),
              classifier.classify({"w1 w2 w3 w4 w5 w6"}), "cut to 8");
  // A model with eight positions gets at most eight tokens.
  auto options = lively_classifier(2)->encoder_options();
  options.positions = 8;
  save_classifier(folder.path(), SequenceClassifier(options, ClassifierOptions{}), "task",
                  {"a", "b"});
  const auto short_model = TextClassifier::open(folder.path());
  EXPECT_EQ(short_model.max_length(), 8);
  expect_same(short_model.classify({"w1 w2 w3 w4 w5 w6 w7 w8 w9"}),
              short_model.classify({"w1 w2 w3 w4 w5 w6"}), "cut to the positions");
}

TEST(TextClassifier, CountsTokensUnknownWordsAndCutTexts) {
  const test::TemporaryFolder folder;
  small_tokenizer().save(folder / "tokenizer.json");
  save_classifier(folder.path(), lively_classifier(2), "task", {"a", "b"});
  const auto classifier = TextClassifier::open(folder.path(), {.max_length = 6});
  const auto tokens = [&](const Text& text) { return classifier.classify(text).tokens; };
  EXPECT_EQ(tokens({"w1 stone w2"}).count, 5);
  EXPECT_EQ(tokens({"w1 stone w2"}).unknown, 1);
  EXPECT_FALSE(tokens({"w1 w2 w3 w4"}).cut) << "just fits";
  EXPECT_TRUE(tokens({"w1 w2 w3 w4 w5"}).cut);
  EXPECT_FALSE(tokens({"w1 w2", "w3"}).cut);
  EXPECT_TRUE(tokens({"w1 w2", "w3 w4"}).cut);
}

TEST(TextClassifier, AnAnswerThatIsNotFiniteIsAnErrorOfItsText) {
  const test::TemporaryFolder folder;
  small_tokenizer().save(folder / "tokenizer.json");
  for (const int64_t outputs : {1, 2}) {
    auto model = lively_classifier(outputs);
    const torch::NoGradGuard no_grad;
    model->named_parameters()["bert.embeddings.word_embeddings.weight"][24].fill_(
        std::numeric_limits<float>::max());  // w19
    save_classifier(folder.path(), model, "task",
                    outputs == 1 ? std::vector<std::string>{} : std::vector<std::string>{"a", "b"});
    const std::vector<Text> texts{{"w1"}, {"w19"}, {"w2"}};
    EXPECT_THROW_WITH(TextClassifier::open(folder.path()).classify(texts), TextError,
                      "text 2 of 3: its answer is not finite");
  }
}

TEST(TextClassifier, FaultsNameTheFileOrTheText) {
  const test::TemporaryFolder folder;
  const auto open = [&] { return TextClassifier::open(folder.path()); };
  EXPECT_THROW_WITH(open(), Error, (folder / "config.json").string());
  const auto model = lively_classifier(2);
  save_classifier(folder.path(), model, "task", {"a", "b"});
  EXPECT_THROW_WITH(open(), Error, (folder / "tokenizer.json").string() + ": does not exist");
  std::ofstream(folder / "tokenizer.json") << "{}";
  EXPECT_THROW_WITH(open(), Error, "tokenizer.json");
  small_tokenizer(10).save(folder / "tokenizer.json");
  EXPECT_THROW_WITH(open(), Error, "has 35 tokens, the model 25");
  small_tokenizer().save(folder / "tokenizer.json");
  EXPECT_THROW_WITH(TextClassifier::open(folder.path(), 2), UsageError, "max_length is 2");
  const std::vector<Text> texts{{"w1"}, {"w2 \xff"}};
  EXPECT_THROW_WITH(open().classify(texts), TextError, "text 2 of 2: ");
  save_model(folder.path(), BertForMaskedLM(model->encoder_options()));
  EXPECT_THROW_WITH(open(), Error, "this is a masked-language model");
}

}  // namespace
}  // namespace hydramix
