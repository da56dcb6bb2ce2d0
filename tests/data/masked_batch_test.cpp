// SPDX-License-Identifier: Apache-2.0
#include "data/masked_batch.h"

#include <gtest/gtest.h>

#include <set>

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

Tokenizer make_tokenizer() {
  std::vector<std::string> tokens{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (int i = 0; i < 200; ++i) tokens.push_back("w" + std::to_string(i));
  return Tokenizer::from_tokens(tokens, {}, "test");
}

// Document d has d % 40 tokens: 5 + d % 200, and so on.
class Numbered : public Documents {
 public:
  explicit Numbered(std::string tokenizer) : tokenizer_(std::move(tokenizer)) {}
  int64_t size() const override { return 500; }
  int64_t length(int64_t d) const override { return d % 40; }
  void read(int64_t d, std::vector<int32_t>& ids) const override {
    for (int64_t i = 0; i < length(d); ++i)
      ids.push_back(static_cast<int32_t>(5 + (d + 3 * i) % 200));
  }
  std::string tokenizer_fingerprint() const override { return tokenizer_; }
  std::string fingerprint() const override { return "numbered"; }

 private:
  std::string tokenizer_;
};

struct Fixture : ::testing::Test {
  Tokenizer tokenizer = make_tokenizer();
  Numbered documents{tokenizer.fingerprint()};
  SequenceOptions options = [] {
    SequenceOptions o;
    o.max_length = 32;
    return o;
  }();
  MaskedBatches batches{documents, tokenizer, options, 3};
};

using MaskedBatchTest = Fixture;

// The tokens of a batch with the targets restored.
std::vector<int64_t> restored(const MaskedBatch& batch) {
  auto ids = batch.ids;
  for (std::size_t i = 0; i < batch.positions.size(); ++i)
    ids[static_cast<std::size_t>(batch.positions[i])] = batch.targets[i];
  return ids;
}

TEST_F(MaskedBatchTest, HoldsTheDocumentsBetweenClsAndSep) {
  const auto batch = batches.training(100, 64);
  ASSERT_EQ(batch.offsets.size(), 65u);
  const auto ids = restored(batch);
  for (std::size_t s = 0; s < 64; ++s) {
    std::vector<int32_t> text;
    documents.read(batch.documents[s], text);
    text.resize(std::min<std::size_t>(text.size(), 30));  // the beginning of a long document
    const auto begin = static_cast<std::size_t>(batch.offsets[s]);
    ASSERT_EQ(static_cast<std::size_t>(batch.offsets[s + 1]) - begin, text.size() + 2);
    EXPECT_EQ(ids[begin], tokenizer.special().cls);
    EXPECT_EQ(ids[begin + text.size() + 1], tokenizer.special().sep);
    for (std::size_t i = 0; i < text.size(); ++i) EXPECT_EQ(ids[begin + 1 + i], text[i]);
  }
}

TEST_F(MaskedBatchTest, DoesNotDependOnHowItIsDivided) {
  const auto whole = batches.training(490, 40);  // crosses the end of an epoch
  std::vector<int64_t> ids, targets;
  for (const auto& part : {batches.training(490, 13), batches.training(503, 27)}) {
    ids.insert(ids.end(), part.ids.begin(), part.ids.end());
    targets.insert(targets.end(), part.targets.begin(), part.targets.end());
  }
  EXPECT_EQ(whole.ids, ids);
  EXPECT_EQ(whole.targets, targets);
}

TEST_F(MaskedBatchTest, AnEpochHasEveryDocumentOnceAndTheNextAnotherOrder) {
  const auto first = batches.training(0, 500), second = batches.training(500, 500);
  EXPECT_EQ(std::set<int64_t>(first.documents.begin(), first.documents.end()).size(), 500u);
  EXPECT_EQ(std::set<int64_t>(second.documents.begin(), second.documents.end()).size(), 500u);
  EXPECT_NE(first.documents, second.documents);
}

TEST_F(MaskedBatchTest, MasksTheRequestedShareEightyTenTen) {
  const auto batch = batches.training(0, 4000);
  double masked = 0, kept = 0;
  for (std::size_t i = 0; i < batch.positions.size(); ++i) {
    const int64_t shown = batch.ids[static_cast<std::size_t>(batch.positions[i])];
    masked += shown == tokenizer.special().mask;
    kept += shown == batch.targets[i];
  }
  const auto chosen = static_cast<double>(batch.positions.size());
  const auto words = static_cast<double>(batch.ids.size()) - 2 * 4000;
  EXPECT_NEAR(chosen / words, 0.3, 0.01);
  EXPECT_NEAR(masked / chosen, 0.8, 0.02);
  EXPECT_NEAR(kept / chosen, 0.1, 0.02);  // and one in 205 of those replaced
  const auto evaluation = batches.evaluation(0, 500);
  EXPECT_NEAR(static_cast<double>(evaluation.positions.size()) /
                  (static_cast<double>(evaluation.ids.size()) - 1000),
              0.15, 0.02);
}

TEST_F(MaskedBatchTest, EvaluationIsTheSameForEverySeedTrainingIsNot) {
  const MaskedBatches other(documents, tokenizer, options, 4);
  EXPECT_EQ(batches.evaluation(10, 20).ids, other.evaluation(10, 20).ids);
  EXPECT_NE(batches.training(10, 20).ids, other.training(10, 20).ids);
}

TEST_F(MaskedBatchTest, AWindowMovesThroughALongDocument) {
  options.long_documents = "window";
  options.max_length = 12;
  const MaskedBatches windows(documents, tokenizer, options, 3);
  std::set<int64_t> begins;
  const auto batch = windows.training(0, 5000);
  for (std::size_t s = 0; s < batch.documents.size(); ++s) {
    if (batch.documents[s] != 39) continue;
    begins.insert(batch.begins[s]);
    ASSERT_LE(batch.begins[s] + 10, 39);
  }
  EXPECT_GT(begins.size(), 3u);
}

TEST_F(MaskedBatchTest, OtherVocabulariesAndEmptyDataAreErrors) {
  const Numbered foreign("0123456789abcdef");
  EXPECT_THROW_WITH(MaskedBatches(foreign, tokenizer, options, 3), Error,
                    "tokenized with another vocabulary");
}

TEST_F(MaskedBatchTest, JoinedDocumentsAreOneTextInRowsOfOneLength) {
  options.long_documents = "join";
  const auto rows =
      sequence_documents(std::make_unique<Numbered>(tokenizer.fingerprint()), options, tokenizer);
  std::vector<int32_t> text;
  for (int64_t d = 0; d < documents.size(); ++d) {
    documents.read(d, text);
    text.push_back(tokenizer.special().sep);
  }
  constexpr int64_t kRow = 31;  // and [CLS]
  const auto tokens = static_cast<int64_t>(text.size());
  ASSERT_EQ(rows->size(), (tokens + kRow - 1) / kRow);
  ASSERT_NE(tokens % kRow, 0);  // the last row is shorter
  for (const int64_t r : {int64_t{0}, int64_t{1}, rows->size() / 2, rows->size() - 1}) {
    const int64_t end = std::min(tokens, (r + 1) * kRow);
    std::vector<int32_t> row;
    rows->read(r, row);
    EXPECT_EQ(row, std::vector<int32_t>(text.begin() + r * kRow, text.begin() + end)) << r;
    EXPECT_EQ(rows->length(r), end - r * kRow);
  }
  EXPECT_NE(rows->fingerprint(), documents.fingerprint());

  const MaskedBatches joined(*rows, tokenizer, options, 3);
  const auto batch = joined.evaluation(0, rows->size());
  const auto ids = restored(batch);
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < tokens; ++i) {
    if (i % kRow == 0) expected.push_back(tokenizer.special().cls);
    expected.push_back(text[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(ids, expected);
  for (const int64_t target : batch.targets) EXPECT_NE(target, tokenizer.special().sep);
}

}  // namespace
}  // namespace hydramix
