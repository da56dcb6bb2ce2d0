// SPDX-License-Identifier: Apache-2.0
// examples/classify_pair, run as a process, agrees with TextClassifier.
#include "base/formatted.h"
#include "hydramix/model_folder.h"
#include "hydramix/text_classifier.h"
#include "language/language_documents.h"
#include "support/classifiers.h"
#include "support/command.h"

namespace hydramix {
namespace {

test::Result run(const std::string& arguments) {
  return test::run_program(HYDRAMIX_EXAMPLES "classify_pair", arguments);
}

// A classifier with the tokenizer of the built-in language.
void save(const std::filesystem::path& folder, const std::vector<std::string>& labels) {
  const auto tokenizer = language_tokenizer();
  auto options = test::lively_classifier(2)->encoder_options();
  options.vocab = tokenizer.size();
  const auto outputs = std::max<int64_t>(1, static_cast<int64_t>(labels.size()));
  save_classifier(folder, SequenceClassifier(options, ClassifierOptions{.outputs = outputs}),
                  "task", labels);
  tokenizer.save(folder / "tokenizer.json");
}

TEST(ClassifyPair, PrintsLabelAndProbabilities) {
  const test::TemporaryFolder folder;
  save(folder.path(), {"entailment", "neutral", "contradiction"});
  const auto r = run(folder.path().string() + " 'the dogs are old .' 'the dog was young .'");
  EXPECT_EQ(r.code, 0) << r.err;
  const auto answer =
      TextClassifier::open(folder.path()).classify({"the dogs are old .", "the dog was young ."});
  EXPECT_EQ(r.out, formatted("%s\n  %.4f  entailment\n  %.4f  neutral\n  %.4f  contradiction\n",
                             answer.label.c_str(), answer.probabilities[0], answer.probabilities[1],
                             answer.probabilities[2]));
}

TEST(ClassifyPair, PrintsAScore) {
  const test::TemporaryFolder folder;
  save(folder.path(), {});
  const auto r = run(folder.path().string() + " 'the dogs are old .' 'the dog was young .'");
  EXPECT_EQ(r.code, 0) << r.err;
  const auto answer =
      TextClassifier::open(folder.path()).classify({"the dogs are old .", "the dog was young ."});
  EXPECT_EQ(r.out, formatted("%.4f\n", answer.value));
}

TEST(ClassifyPair, ReportsErrors) {
  EXPECT_EQ(run("one two").code, 2);
  const auto r = run("/nowhere a b");
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(test::contains(r.err, "error: /nowhere/config.json")) << r.err;
}

}  // namespace
}  // namespace hydramix
