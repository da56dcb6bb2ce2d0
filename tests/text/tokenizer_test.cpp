// SPDX-License-Identifier: Apache-2.0
// The tokenizer against the Hugging Face library's own output (tests/golden/tokenizer.json), and
// against the reference implementation on random Unicode with random vocabularies.
#include "hydramix/tokenizer.h"

#include <nlohmann/json.hpp>

#include <random>
#include <set>

#include "base/read_file.h"
#include "hydramix/error.h"
#include "support/expect.h"
#include "text/tokenizer_reference.h"

namespace hydramix {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;
using Spans = std::vector<std::array<int64_t, 2>>;

const std::vector<std::string> kSpecial = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

std::vector<std::string> with_special(const std::vector<std::string>& tokens) {
  std::vector<std::string> all = kSpecial;
  all.insert(all.end(), tokens.begin(), tokens.end());
  return all;
}

Tokenizer make(const std::vector<std::string>& tokens, const TokenizerOptions& options = {}) {
  return Tokenizer::from_tokens(with_special(tokens), options, "test");
}

std::vector<std::string> tokens_of(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::string> result;
  for (const int32_t id : tokenizer.encode(text).ids) result.push_back(tokenizer.token(id));
  return {result.begin() + 1, result.end() - 1};
}

json golden(const std::string& name) {
  return json::parse(read_file(HYDRAMIX_SOURCE_DIR "/tests/golden/" + name));
}

// The part of the published vocabulary that these texts use, with its original ids.
Tokenizer golden_tokenizer() {
  const json vocabulary = golden("tokenizer_vocabulary.json");
  std::vector<std::string> tokens;
  for (int id = 0; id < vocabulary["size"]; ++id) {
    const std::string key = std::to_string(id);
    const bool there = vocabulary["tokens"].contains(key);
    tokens.push_back(there ? vocabulary["tokens"][key].get<std::string>()
                           : "[left out " + key + "]");
  }
  return Tokenizer::from_tokens(tokens, {}, "tokenizer_vocabulary.json");
}

TEST(Tokenizer, GivesTheIdsAndOffsetsOfHuggingFace) {
  const Tokenizer tokenizer = golden_tokenizer();
  const json cases = golden("tokenizer.json");
  int compared = 0;
  for (const char* group : {"singles", "real"}) {
    for (const auto& example : cases[group]) {
      const auto text = example["text"].get<std::string>();
      const Encoding encoding = tokenizer.encode(text);
      EXPECT_EQ(encoding.ids, example["ids"].get<Ids>()) << text;
      EXPECT_EQ(encoding.type_ids, Ids(encoding.ids.size(), 0));
      if (example.contains("offsets")) {
        EXPECT_EQ(encoding.offsets, example["offsets"].get<Spans>()) << text;
      }
      Ids ids = {7};
      tokenizer.append_ids(text, ids);
      EXPECT_EQ(ids[0], 7);
      EXPECT_EQ(Ids(ids.begin() + 1, ids.end()),
                Ids(encoding.ids.begin() + 1, encoding.ids.end() - 1));
      ++compared;
    }
  }
  for (const auto& example : cases["pairs"]) {
    const Encoding encoding =
        tokenizer.encode_pair(example["a"].get<std::string>(), example["b"].get<std::string>());
    EXPECT_EQ(encoding.ids, example["ids"].get<Ids>());
    EXPECT_EQ(encoding.type_ids, example["type_ids"].get<Ids>());
    ++compared;
  }
  EXPECT_EQ(compared, 422);
}

// Texts on which versions of Unicode differ, and pairs around the maximal length.
TEST(Tokenizer, GivesWhatHuggingFaceGivesWhereUnicodeVersionsDiffer) {
  const json file = golden("tokenizer.json");
  EXPECT_NE(file["library"].get<std::string>().find("tokenizers 0.23"), std::string::npos);
  const auto tokens = file["tokens"].get<std::vector<std::string>>();
  const Tokenizer uncased = Tokenizer::from_tokens(tokens, {}, "golden");
  const Tokenizer cased = Tokenizer::from_tokens(tokens, TokenizerOptions::cased(), "golden");
  EXPECT_EQ(file["cases"].size(), 148U);
  for (const auto& example : file["cases"]) {
    const Tokenizer& tokenizer = example["cased"] ? cased : uncased;
    const json& input = example["input"];
    const int64_t max_length = example["max_length"];
    const Encoding encoding = input.is_string()
                                  ? tokenizer.encode(input.get<std::string>(), max_length)
                                  : tokenizer.encode_pair(input[0].get<std::string>(),
                                                          input[1].get<std::string>(), max_length);
    EXPECT_EQ(encoding.ids, example["ids"].get<Ids>()) << input;
    EXPECT_EQ(encoding.offsets, example["offsets"].get<Spans>()) << input;
    EXPECT_EQ(encoding.type_ids, example["type_ids"].get<Ids>()) << input;
    EXPECT_EQ(tokenizer.decode(encoding.ids), example["decoded"].get<std::string>()) << input;
  }
}

// Random text that exercises every rule: each draw is from one of these sets.
class RandomText {
 public:
  explicit RandomText(unsigned seed) : random_(seed) {}

  int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }

  std::string operator()(int length) {
    std::string text;
    while (length-- > 0) append(text);
    return text;
  }

 private:
  void append(std::string& text) {
    static const std::vector<char32_t> kOdd = {
        0x00,    0x01,    0x0B,    0x0C,    0x1C,    0x7F,   0x85,    0xA0,    0xAD,    0x130,
        0x131,   0x1C5,   0x1E9E,  0x3A3,   0x344,   0x37E,  0x390,   0x958,   0x9CB,   0xF73,
        0xF81,   0x1680,  0x166D,  0x1734,  0x180E,  0x1B06, 0x1B35,  0x1B44,  0x200B,  0x2028,
        0x202E,  0x2126,  0x2ADC,  0x302E,  0x302F,  0x3000, 0xA9BD,  0xF900,  0xFA0E,  0xFB1F,
        0xFB2C,  0xFEFF,  0xFFFD,  0xE000,  0xAC01,  0xD7A3, 0x11938, 0x1D15F, 0x1D165, 0x1D16D,
        0x2F81A, 0x2B820, 0x2B920, 0x1E900, 0x10FFFF};
    static const std::vector<std::string> kPieces = {"[MASK]", "[SEP]", "[",
                                                     "[MASK",  "]",     "[UNK]]"};
    const auto any = [&](char32_t first, char32_t last) {
      char32_t c = first + static_cast<char32_t>(below(static_cast<int>(last - first + 1)));
      if (c >= 0xD800 && c < 0xE000) c = 'x';
      unicode::append_utf8(c, text);
    };
    const auto one_of = [&](const auto& list) {
      return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
    };
    const int set = below(14);
    if (set < 3) any('a', 'c');
    if (set == 3) any('A', 'C');
    if (set == 4) any(0, 0x7F);
    if (set == 5) text += ' ';
    if (set == 6) any(0xC0, 0x17F);
    if (set == 7) any(0x300, 0x36F);
    if (set == 8) any(0x4E00, 0x4E03);
    if (set == 9) unicode::append_utf8(one_of(kOdd), text);
    if (set == 10) text += below(6) > 0 ? "ab" : one_of(kPieces);
    if (set == 11) any(0x1F600, 0x1F603);
    if (set == 12) any(0, 0x10FFFF);
    if (set == 13) any(0x900, 0x1FFF);
  }
  std::mt19937 random_;
};

TEST(Tokenizer, EqualsTheReferenceOnRandomUnicode) {
  RandomText random(1);
  std::set<std::size_t> sizes;
  int64_t known = 0, pieces = 0, unknown = 0;
  for (int round = 0; round < 400; ++round) {
    TokenizerOptions options;
    options.lowercase = random.below(4) > 0;
    options.strip_accents = random.below(4) > 0;
    options.clean_text = random.below(4) > 0;
    options.space_chinese = random.below(4) > 0;
    options.longest_word = random.below(3) > 0 ? 100 : 1 + random.below(8);
    options.prefix = random.below(8) > 0 ? "##" : random.below(2) > 0 ? "a" : "";
    std::vector<std::string> texts;
    for (int k = 0; k < 6; ++k) texts.push_back(random(random.below(60)));
    std::string long_word;
    const int letters = 95 + random.below(10);
    for (int k = 0; k < letters; ++k) long_word += static_cast<char>('a' + random.below(2));
    texts.push_back(long_word + " " + random(5));

    // Tokens are substrings of the words, so that many match and some nearly match.
    std::set<std::string> vocabulary;
    for (const auto& text : texts)
      for (const auto& word : test::words_of(test::normalize(test::decode_utf8(text), options)))
        for (int k = 0; k < 3; ++k) {
          const auto size = static_cast<int>(word.size());
          const auto begin = static_cast<std::size_t>(random.below(3) > 0 ? 0 : random.below(size));
          const auto most = std::min(4, size - static_cast<int>(begin));
          const auto end = begin + 1 + static_cast<std::size_t>(random.below(most));
          const std::string piece = test::encode_utf8(word, begin, end);
          vocabulary.insert(random.below(2) > 0 ? piece : options.prefix + piece);
        }
    if (random.below(2) > 0)
      for (const char* piece : {"a", "b", "ab", "ba", "aab"})
        vocabulary.insert({piece, options.prefix + piece});
    for (const auto& name : kSpecial) vocabulary.erase(name);
    const auto tokens = with_special({vocabulary.begin(), vocabulary.end()});
    const Tokenizer tokenizer = Tokenizer::from_tokens(tokens, options, "test");
    const test::ReferenceTokenizer reference(tokens, options);
    for (const auto& text : texts) {
      const Encoding expected = reference.encode(text);
      const Encoding encoding = tokenizer.encode(text);
      const Ids ids(encoding.ids.begin() + 1, encoding.ids.end() - 1);
      ASSERT_EQ(ids, expected.ids) << "round " << round << ": " << json(text);
      ASSERT_EQ(Spans(encoding.offsets.begin() + 1, encoding.offsets.end() - 1), expected.offsets)
          << "round " << round << ": " << json(text);
      Ids plain;
      tokenizer.append_ids(text, plain);
      ASSERT_EQ(plain, ids);
      for (const int32_t id : ids) {
        unknown += id == 1;
        known += id > 4;
        pieces += tokens[static_cast<std::size_t>(id)].starts_with("##");
      }
    }
  }
  // The comparison is meaningless if the result is only [UNK].
  EXPECT_GT(known, 10000);
  EXPECT_GT(pieces, 1000);
  EXPECT_GT(unknown, 1000);
}

TEST(Tokenizer, TakesTheLongestPieceEachTime) {
  const Tokenizer tokenizer = make({"a", "ab", "abcd", "##b", "##c", "##cde", "##d", "##dz"});
  EXPECT_EQ(tokens_of(tokenizer, "abcd"), (std::vector<std::string>{"abcd"}));
  EXPECT_EQ(tokens_of(tokenizer, "abcdz"), (std::vector<std::string>{"[UNK]"}));  // not ab ##c ##dz
  EXPECT_EQ(tokens_of(tokenizer, "abcz"), (std::vector<std::string>{"[UNK]"}));
  EXPECT_EQ(tokens_of(tokenizer, "abccd"), (std::vector<std::string>{"ab", "##c", "##c", "##d"}));
  EXPECT_EQ(tokens_of(tokenizer, "acdeb"), (std::vector<std::string>{"a", "##cde", "##b"}));
  EXPECT_EQ(tokens_of(tokenizer, "b"), (std::vector<std::string>{"[UNK]"}));
  EXPECT_EQ(tokens_of(tokenizer, "##b"), (std::vector<std::string>{"[UNK]", "[UNK]", "[UNK]"}));
}

TEST(Tokenizer, UsesTheUnicodeVersionsOfHuggingFace) {
  const Tokenizer uncased = make({"a", "##a", "i", "##i", "\u0307", "##\u0307", "\u03c3",
                                  "##\u03c3", ";", "\U0002B920", "\U0002B820", "##\U0002B820"});
  // U+1734 was a nonspacing mark in Unicode 9.0 but not since 14.0; U+1AC1 was added in 14.0.
  EXPECT_EQ(tokens_of(uncased, "a\u1734a"), (std::vector<std::string>{"a", "##a"}));
  EXPECT_EQ(tokens_of(uncased, "a\u1AC1a"), (std::vector<std::string>{"[UNK]"}));
  // Unassigned characters stay; private and format characters are dropped.
  EXPECT_EQ(tokens_of(uncased, "a\U000EFFFFa"), (std::vector<std::string>{"[UNK]"}));
  EXPECT_EQ(tokens_of(uncased, "a\uE000\u200D\uFFFDa"), (std::vector<std::string>{"a", "##a"}));
  EXPECT_EQ(tokens_of(uncased, "a\u037Ea"), (std::vector<std::string>{"a", ";", "a"}));
  EXPECT_EQ(tokens_of(uncased, "\u03a3\u03a3"), (std::vector<std::string>{"\u03c3", "##\u03c3"}));
  EXPECT_EQ(tokens_of(uncased, "\u0130i"), (std::vector<std::string>{"i", "##i"}));
  EXPECT_EQ(tokens_of(uncased, "a\U0002B920a"), (std::vector<std::string>{"a", "\U0002B920", "a"}));
  EXPECT_EQ(tokens_of(uncased, "a\U0002B820a"),
            (std::vector<std::string>{"a", "##\U0002B820", "##a"}));
  TokenizerOptions accents;
  accents.strip_accents = false;
  const Tokenizer dotted = make({"i", "##i", "##\u0307"}, accents);
  EXPECT_EQ(tokens_of(dotted, "\u0130I"), (std::vector<std::string>{"i", "##\u0307", "##i"}));
  EXPECT_EQ(dotted.encode("\u0130I").offsets, (Spans{{0, 0}, {0, 1}, {0, 1}, {1, 2}, {0, 0}}));
}

TEST(Tokenizer, KeepsCaseAndAccentsWhenCased) {
  const Tokenizer cased = make({"\u00c9t\u00e9", "\u00e9t\u00e9"}, TokenizerOptions::cased());
  EXPECT_EQ(tokens_of(cased, "\u00c9t\u00e9 \u00e9t\u00e9 ETE"),
            (std::vector<std::string>{"\u00c9t\u00e9", "\u00e9t\u00e9", "[UNK]"}));
}

TEST(Tokenizer, CountsOffsetsInCharactersOfTheOriginal) {
  const Tokenizer tokenizer = make({"cafe", "x", "##x", "\u1100", "##\u1161"});
  const Encoding encoding = tokenizer.encode("caf\u00e9 x\u0301\u0301x [MASK] \uAC00");
  EXPECT_EQ(encoding.offsets,
            (Spans{{0, 0}, {0, 4}, {5, 6}, {8, 9}, {10, 16}, {17, 18}, {17, 18}, {0, 0}}));
}

TEST(Tokenizer, TruncatesTheLongerOfAPair) {
  const Tokenizer tokenizer = make({"a", "b"});
  const auto lengths = [&](int first, int second, int64_t room) {
    std::string a, b;
    for (int k = 0; k < first; ++k) a += "a ";
    for (int k = 0; k < second; ++k) b += "b ";
    const Encoding pair = tokenizer.encode_pair(a, b, room + 3);
    EXPECT_EQ(pair.ids.size(), pair.offsets.size());
    EXPECT_EQ(pair.ids.size(), pair.type_ids.size());
    return std::array{std::count(pair.ids.begin(), pair.ids.end(), 5),
                      std::count(pair.ids.begin(), pair.ids.end(), 6)};
  };
  using Lengths = std::array<std::ptrdiff_t, 2>;
  EXPECT_EQ(lengths(0, 8, 7), (Lengths{0, 7}));
  EXPECT_EQ(lengths(2, 4, 7), (Lengths{2, 4}));
  EXPECT_EQ(lengths(2, 8, 7), (Lengths{2, 5}));
  EXPECT_EQ(lengths(4, 4, 7), (Lengths{3, 4}));
  EXPECT_EQ(lengths(8, 4, 7), (Lengths{4, 3}));
  EXPECT_EQ(lengths(8, 8, 7), (Lengths{3, 4}));
  EXPECT_EQ(lengths(9, 8, 5), (Lengths{2, 3})) << "no word after the eighth token counts";
  EXPECT_EQ(lengths(8, 2, 7), (Lengths{5, 2}));
  EXPECT_EQ(lengths(8, 8, 0), (Lengths{0, 0}));
  EXPECT_EQ(tokenizer.encode("a b a b", 4).ids, (Ids{2, 5, 6, 3}));
  EXPECT_EQ(tokenizer.encode("a b", 4).ids, (Ids{2, 5, 6, 3}));
  EXPECT_EQ(tokenizer.encode("a b", 2).ids, (Ids{2, 3}));
  EXPECT_THROW_WITH(tokenizer.encode("a", 1), Error, "max_length is 1; expected at least 2");
  EXPECT_THROW_WITH(tokenizer.encode_pair("a", "b", 2), Error, "expected at least 3");
}

TEST(Tokenizer, EncodesABatchLikeSingleTexts) {
  const Tokenizer tokenizer = golden_tokenizer();
  std::vector<std::string> texts;
  const json cases = golden("tokenizer.json");
  for (const auto& example : cases["real"]) texts.push_back(example["text"]);
  for (const int threads : {0, 1, 3}) {
    const auto batch = tokenizer.encode_batch(texts, 32, threads);
    ASSERT_EQ(batch.size(), texts.size());
    for (std::size_t k = 0; k < texts.size(); ++k) {
      ASSERT_EQ(batch[k].ids, tokenizer.encode(texts[k], 32).ids);
      ASSERT_LE(batch[k].ids.size(), 32u);
    }
  }
  EXPECT_TRUE(tokenizer.encode_batch({}, 0, 3).empty());
  texts[200] = "ok \xFF";
  texts[300] = "\xFF";
  EXPECT_THROW_WITH(tokenizer.encode_batch(texts, 0, 3), Error, "byte 3 (0xFF)");
}

TEST(Tokenizer, RefusesInvalidUtf8AndNamesTheByte) {
  const Tokenizer tokenizer = make({"a"});
  Ids ids = {1, 2, 3};
  const auto refused = [&](std::string_view text, const std::string& message) {
    EXPECT_THROW_WITH(tokenizer.append_ids(text, ids), Error, message);
    EXPECT_EQ(ids, (Ids{1, 2, 3}));
  };
  refused("a a \xFF", "the text is not UTF-8: byte 4 (0xFF)");
  refused("a [MASK] \x80", "byte 9 (0x80)");
  refused("\xC3", "byte 0 (0xC3)");
  refused("\xC3\xA9\xC3(", "byte 2 (0xC3)");
  refused("\xC0\xAF", "byte 0 (0xC0)");          // overlong
  refused("\xE0\x80\x80", "byte 0 (0xE0)");      // overlong
  refused("\xED\xA0\x80", "byte 0 (0xED)");      // a surrogate
  refused("\xF4\x90\x80\x80", "byte 0 (0xF4)");  // beyond U+10FFFF
  refused("\xF0\x9F\x98", "byte 0 (0xF0)");
  EXPECT_THROW_WITH(tokenizer.encode("a a a a \xFF", 3), Error, "byte 8 (0xFF)");
}

TEST(Tokenizer, DecodesLikeHuggingFace) {
  const Tokenizer tokenizer = make({"hello", ",", "world", "!", "un", "##aff", "##able", "'", "s"});
  const auto decoded = [&](const std::string& text, bool skip = true) {
    return tokenizer.decode(tokenizer.encode(text).ids, skip);
  };
  EXPECT_EQ(decoded("Hello, world!"), "hello, world!");
  EXPECT_EQ(decoded("unaffable"), "unaffable");
  EXPECT_EQ(decoded("hello's"), "hello ' s");
  EXPECT_EQ(decoded("hello [MASK]", false), "[CLS] hello [MASK] [SEP]");
  EXPECT_EQ(decoded("hello [MASK]"), "hello");
  EXPECT_EQ(tokenizer.decode(Ids{10, 11}), "##affable");
  EXPECT_EQ(tokenizer.decode(Ids{}), "");
  EXPECT_THROW_WITH(tokenizer.decode(Ids{99}), Error,
                    "id 99 is not in the vocabulary of 14 tokens");
  EXPECT_THROW_WITH(tokenizer.token(-1), Error, "id -1");
}

TEST(Tokenizer, KnowsItsTokens) {
  const Tokenizer tokenizer = make({"a"});
  EXPECT_EQ(tokenizer.size(), 6);
  EXPECT_EQ(tokenizer.find("a"), 5);
  EXPECT_EQ(tokenizer.find("z"), std::nullopt);
  EXPECT_EQ(tokenizer.special().mask, 4);
  EXPECT_TRUE(tokenizer.is_special(2));
  EXPECT_FALSE(tokenizer.is_special(5));
  EXPECT_FALSE(tokenizer.is_special(99));
  EXPECT_EQ(tokenizer.fingerprint().size(), 16u);
  EXPECT_NE(tokenizer.fingerprint(), make({"b"}).fingerprint());
  EXPECT_NE(tokenizer.fingerprint(), make({"a"}, TokenizerOptions::cased()).fingerprint());
}

}  // namespace
}  // namespace hydramix
