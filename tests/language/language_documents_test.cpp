// SPDX-License-Identifier: Apache-2.0
// Documents of the language for training: their ids are the tokenizer's.
#include "language/language_documents.h"

#include <set>

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

TEST(LanguageDocuments, TheTokenizerReadsTheTextAsTheSameIds) {
  const Tokenizer tokenizer = language_tokenizer();
  const LanguageDocuments documents({.seed = 5}, Split::kValidation, 500);
  EXPECT_EQ(documents.size(), 500);
  for (int64_t i = 0; i < documents.size(); ++i) {
    const Document document = documents.document(i);
    std::vector<int32_t> from_text, read = {-1};
    tokenizer.append_ids(documents.language().text(document), from_text);
    documents.read(i, read);
    EXPECT_EQ(read.front(), -1) << "read() must append";
    read.erase(read.begin());
    ASSERT_EQ(read, from_text) << documents.language().text(document);
    EXPECT_EQ(documents.length(i), static_cast<int64_t>(read.size()));
    std::vector<Kind> kinds;
    documents.read_kinds(i, kinds);
    ASSERT_EQ(kinds.size(), read.size());
    for (std::size_t w = 0; w < kinds.size(); ++w) {
      EXPECT_EQ(kinds[w], document.words[w].kind);
      EXPECT_EQ(document.words[w].id, read[w]);
    }
  }
  EXPECT_EQ(documents.tokenizer_fingerprint(), tokenizer.fingerprint());
}

TEST(LanguageDocuments, SpecialTokensHaveBertsPositions) {
  const Tokenizer tokenizer = language_tokenizer();
  EXPECT_EQ(tokenizer.special().pad, 0);
  EXPECT_EQ(tokenizer.special().unknown, 1);
  EXPECT_EQ(tokenizer.special().cls, 2);
  EXPECT_EQ(tokenizer.special().sep, 3);
  EXPECT_EQ(tokenizer.special().mask, 4);
  EXPECT_EQ(tokenizer.size(), static_cast<int64_t>(Language().vocabulary().size()));
}

TEST(LanguageDocuments, OtherEnglishIsSplitIntoLetters) {
  const Tokenizer tokenizer = language_tokenizer();
  std::vector<int32_t> ids;
  tokenizer.append_ids("Zebras, 42 of them: \"quick\" & odd!", ids);
  for (const int32_t id : ids) EXPECT_NE(id, tokenizer.special().unknown);
  EXPECT_EQ(tokenizer.token(ids[0]), "z");
  EXPECT_EQ(tokenizer.token(ids[1]), "##e");
}

TEST(LanguageDocuments, FingerprintsDistinguishData) {
  std::set<std::string> seen;
  const auto fingerprint = [](const LanguageOptions& options, Split split, int64_t count) {
    return LanguageDocuments(options, split, count).fingerprint();
  };
  EXPECT_TRUE(seen.insert(fingerprint({}, Split::kTrain, 10)).second);
  EXPECT_TRUE(seen.insert(fingerprint({}, Split::kValidation, 10)).second);
  EXPECT_TRUE(seen.insert(fingerprint({.seed = 2}, Split::kTrain, 10)).second);
  EXPECT_TRUE(seen.insert(fingerprint({.longest = 121}, Split::kTrain, 10)).second);
  EXPECT_TRUE(seen.insert(fingerprint({}, Split::kTrain, 11)).second);
  EXPECT_EQ(fingerprint({}, Split::kTrain, 10).size(), 16u);
  EXPECT_FALSE(seen.insert(fingerprint({}, Split::kTrain, 10)).second);
}

TEST(LanguageDocuments, NumbersOutOfRangeAreRefused) {
  const LanguageDocuments documents({}, Split::kTrain, 3);
  std::vector<int32_t> ids;
  EXPECT_THROW_WITH(documents.read(3, ids), Error, "document 3 was asked for; there are 3");
  EXPECT_THROW_WITH(documents.length(-1), Error, "document -1");
  EXPECT_THROW_WITH(LanguageDocuments({}, Split::kTrain, 0), Error, "expected at least one");
}

}  // namespace
}  // namespace hydramix
