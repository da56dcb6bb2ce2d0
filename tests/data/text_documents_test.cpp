// SPDX-License-Identifier: Apache-2.0
#include "data/text_documents.h"

#include "base/atomic_file.h"
#include "hydramix/error.h"
#include "support/environment.h"
#include "support/expect.h"

namespace hydramix {
namespace {

class TextDocumentsTest : public ::testing::Test {
 protected:
  TextDocuments read(const std::string& text, int64_t most = 0) const {
    write_file(folder_ / "texts.txt", text);
    TextRows rows({}, {(folder_ / "texts.txt").string()}, {});
    return TextDocuments(rows, tokenizer_, most, "texts.txt");
  }

  test::TemporaryFolder folder_;
  const Tokenizer tokenizer_ = Tokenizer::from_tokens(
      {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"}, {}, "test");
};

TEST_F(TextDocumentsTest, HoldTheTokensOfEveryTextThatHasAny) {
  const auto documents = read("a b\n\n \nc\nb b a");
  ASSERT_EQ(documents.size(), 3);
  std::vector<int32_t> ids{9};
  for (int64_t i = 0; i < documents.size(); ++i) documents.read(i, ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{9, 5, 6, 7, 6, 6, 5})) << "reading appends";
  EXPECT_EQ(documents.length(0), 2);
  EXPECT_EQ(documents.length(1), 1);
  EXPECT_EQ(documents.length(2), 3);
  EXPECT_EQ(documents.tokenizer_fingerprint(), tokenizer_.fingerprint());
  EXPECT_THROW_WITH(documents.length(3), Error, "there is no text 3, expected 0 to 2");
}

TEST_F(TextDocumentsTest, KeepTheTokensInATemporaryFile) {
  test::EnvironmentVariable folder("TMPDIR", "/nonexistent/folder");
  EXPECT_THROW_WITH(read("a b\n"), Error, "/nonexistent/folder: cannot create a temporary file");
}

TEST_F(TextDocumentsTest, FingerprintsAreOfTokensAndTheirBorders) {
  const auto fingerprint = read("a b\nc\n").fingerprint();
  EXPECT_EQ(read("a  B\n\nc").fingerprint(), fingerprint);
  EXPECT_NE(read("a\nb c\n").fingerprint(), fingerprint);
  EXPECT_NE(read("a b\nb\n").fingerprint(), fingerprint);
}

TEST_F(TextDocumentsTest, StopsAtTheLimitAndNamesWhatItCannotRead) {
  EXPECT_EQ(read("a\n\nb\nc\n", 2).size(), 2);
  EXPECT_EQ(read("a\n\xFF\n", 1).size(), 1) << "the rest is not read";
  EXPECT_THROW_WITH(read("a\n\xFF\n"), Error, "texts.txt: line 2: ");
  EXPECT_THROW_WITH(read("\n \n"), Error, "texts.txt: has no text with a word in it");
}

}  // namespace
}  // namespace hydramix
