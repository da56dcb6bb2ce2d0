// SPDX-License-Identifier: Apache-2.0
// Vocabulary files: what is accepted, what is refused and why, and that saving loses nothing.
#include <nlohmann/json.hpp>

#include <functional>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "hydramix/error.h"
#include "hydramix/tokenizer.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

constexpr const char* kVocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\n##o\n\u00e9\n";

class TokenizerFile : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& contents) {
    write_file(folder_ / name, contents);
    return folder_ / name;
  }
  // A valid tokenizer.json after a change to it.
  std::filesystem::path write_changed(const std::function<void(json&)>& change) {
    Tokenizer::load(write("vocab.txt", kVocabulary)).save(folder_ / "tokenizer.json");
    json file = json::parse(read_file(folder_ / "tokenizer.json"));
    change(file);
    return write("changed.json", file.dump());
  }
  void expect_refused(const std::function<void(json&)>& change, const std::string& message) {
    const auto path = write_changed(change);
    EXPECT_THROW_WITH(Tokenizer::load(path), Error, message);
    EXPECT_THROW_WITH(Tokenizer::load(path), Error, path.string() + ": ");
  }

  test::TemporaryFolder folder_;
};

TEST_F(TokenizerFile, IsReadFromLinesOfAnyEnding) {
  const Tokenizer unix_lines = Tokenizer::load(write("unix.txt", kVocabulary));
  std::string crlf = kVocabulary;
  for (std::size_t at = 0; (at = crlf.find('\n', at)) != crlf.npos; at += 2) crlf.insert(at, "\r");
  crlf.resize(crlf.size() - 2);  // the last newline is optional
  const Tokenizer dos_lines = Tokenizer::load(write("dos.txt", crlf));
  EXPECT_EQ(unix_lines.size(), 8);
  EXPECT_EQ(unix_lines.token(7), "\u00e9");
  EXPECT_EQ(unix_lines.fingerprint(), dos_lines.fingerprint());
}

TEST_F(TokenizerFile, NamesTheErrorInAVocabulary) {
  const auto path = write("twice.txt", std::string(kVocabulary) + "x\nhello\n");
  EXPECT_THROW_WITH(Tokenizer::load(path), Error,
                    path.string() + ":10: the token \"hello\" is already on line 6");
  EXPECT_THROW_WITH(Tokenizer::load(write("short.txt", "[PAD]\n[UNK]\n[SEP]\nx\n")), Error,
                    "short.txt: the vocabulary lacks [CLS], [MASK]; expected [PAD], [UNK], [CLS], "
                    "[SEP], [MASK]");
  EXPECT_THROW_WITH(Tokenizer::load(write("blank.txt", "[PAD]\n\nx\n")), Error,
                    "blank.txt:2: the line is empty");
  EXPECT_THROW_WITH(Tokenizer::load(write("latin1.txt", "[PAD]\n\xE9t\xE9\n")), Error,
                    "latin1.txt: the text is not UTF-8: byte 6 (0xE9)");
  EXPECT_THROW_WITH(Tokenizer::load(write("empty.txt", "")), Error, "the file is empty");
  EXPECT_THROW_WITH(Tokenizer::load(folder_ / "missing.txt"), Error, "missing.txt");
}

TEST_F(TokenizerFile, RoundTripsThroughJson) {
  TokenizerOptions options;
  options.lowercase = false;
  options.space_chinese = false;
  options.longest_word = 7;
  const Tokenizer before = Tokenizer::load(write("vocab.txt", kVocabulary), options);
  before.save(folder_ / "tokenizer.json");
  const Tokenizer after = Tokenizer::load(folder_ / "tokenizer.json");
  EXPECT_EQ(after.fingerprint(), before.fingerprint());
  EXPECT_FALSE(after.options().lowercase);
  EXPECT_TRUE(after.options().strip_accents);
  EXPECT_TRUE(after.options().clean_text);
  EXPECT_FALSE(after.options().space_chinese);
  EXPECT_EQ(after.options().longest_word, 7);
  EXPECT_EQ(after.encode("hello [MASK] helloo").ids, (Ids{2, 5, 4, 5, 6, 3}));
  EXPECT_TRUE(after.is_special(4));
}

TEST_F(TokenizerFile, HasTheShapeThatHuggingFaceReads) {
  Tokenizer::load(write("vocab.txt", kVocabulary)).save(folder_ / "tokenizer.json");
  const json file = json::parse(read_file(folder_ / "tokenizer.json"));
  EXPECT_EQ(file["version"], "1.0");
  EXPECT_EQ(file["model"]["type"], "WordPiece");
  EXPECT_EQ(file["model"]["vocab"]["hello"], 5);
  EXPECT_EQ(file["model"]["max_input_chars_per_word"], 100);
  EXPECT_EQ(file["added_tokens"][4],
            json::parse(R"({"id": 4, "content": "[MASK]", "single_word": false, "lstrip": false,
                            "rstrip": false, "normalized": false, "special": true})"));
  EXPECT_EQ(file["post_processor"]["special_tokens"]["[CLS]"],
            json::parse(R"({"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]})"));
  EXPECT_EQ(file["post_processor"]["pair"][3],
            json::parse(R"({"Sequence": {"id": "B", "type_id": 1}})"));
  EXPECT_EQ(file["decoder"],
            json::parse(R"({"type": "WordPiece", "prefix": "##", "cleanup": true})"));
}

TEST_F(TokenizerFile, ReadsOlderFiles) {
  const auto path = write_changed([](json& file) {
    file["model"].erase("type");
    file["normalizer"]["strip_accents"] = nullptr;
    file["normalizer"]["lowercase"] = false;
    file["post_processor"] = json::parse(R"({"type": "BertProcessing", "sep": ["[SEP]", 3],
                                             "cls": ["[CLS]", 2]})");
    file["added_tokens"].push_back({{"id", 8}, {"content", "hell"}, {"special", false}});
  });
  const Tokenizer tokenizer = Tokenizer::load(path);
  EXPECT_FALSE(tokenizer.options().strip_accents);
  EXPECT_EQ(tokenizer.size(), 9);
  // An added token is found in the original text, and is not a piece of a word.
  EXPECT_EQ(tokenizer.encode("hell hello").ids, (Ids{2, 8, 8, 1, 3}));
  EXPECT_FALSE(tokenizer.is_special(8));
  tokenizer.save(folder_ / "again.json");
  EXPECT_EQ(Tokenizer::load(folder_ / "again.json").fingerprint(), tokenizer.fingerprint());
}

TEST_F(TokenizerFile, NamesTheKeyThatIsNotBerts) {
  expect_refused([](json& f) { f["model"]["type"] = "BPE"; },
                 "model.type is \"\\\"BPE\\\"\"; expected \"WordPiece\"");
  expect_refused([](json& f) { f["model"]["unk_token"] = "<unk>"; }, "model.unk_token is ");
  expect_refused([](json& f) { f["model"]["vocab"] = json::array(); }, "model.vocab is ");
  expect_refused([](json& f) { f["model"]["vocab"]["x"] = 99; },
                 "model.vocab.x is \"99\"; expected an id below 9 that no other token has");
  expect_refused([](json& f) { f["model"]["vocab"]["x"] = 5; }, "that no other token has");
  expect_refused([](json& f) { f["normalizer"]["type"] = "NFC"; }, "normalizer.type is ");
  expect_refused([](json& f) { f["normalizer"]["lowercase"] = 1; },
                 "normalizer.lowercase is \"1\"; expected true or false");
  expect_refused([](json& f) { f["pre_tokenizer"]["type"] = "ByteLevel"; },
                 "pre_tokenizer.type is ");
  expect_refused([](json& f) { f["decoder"]["type"] = "ByteLevel"; }, "decoder.type is ");
  expect_refused([](json& f) { f["post_processor"]["type"] = "RobertaProcessing"; },
                 "post_processor.type is ");
  expect_refused([](json& f) { f["post_processor"]["pair"].erase(0); }, "post_processor.pair is ");
  expect_refused([](json& f) { f["added_tokens"][4]["lstrip"] = true; },
                 "added_tokens[4].lstrip is \"true\"; expected false");
  expect_refused([](json& f) { f["added_tokens"][4]["id"] = 5; }, "added_tokens[4].id is ");
  expect_refused([](json& f) { f["added_tokens"][0]["content"] = ""; }, "added_tokens[0].content");
  EXPECT_THROW_WITH(Tokenizer::load(write("broken.json", "{\"model\": ")), Error,
                    "broken.json: is not JSON at byte");
  EXPECT_THROW_WITH(Tokenizer::load(write("deep.json", "{\"model\": " + std::string(100'000, '['))),
                    Error, "deep.json: is nested deeper than 64 levels");
}

TEST_F(TokenizerFile, AByteOrderMarkIsNoPartOfTheFirstToken) {
  const std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nword\n";
  const auto plain = Tokenizer::load(write("plain.txt", vocabulary));
  const auto marked = Tokenizer::load(write("marked.txt", "\xEF\xBB\xBF" + vocabulary));
  EXPECT_EQ(marked.fingerprint(), plain.fingerprint());
}

}  // namespace
}  // namespace hydramix
