// SPDX-License-Identifier: Apache-2.0
// Learning a vocabulary: small cases by hand, comparison with a reference trainer on random words,
// and use of the learned vocabulary on its own text.
#include "text/wordpiece_trainer.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using Tokens = std::vector<std::string>;

Tokens train(const std::string& text, const TrainerOptions& options) {
  WordCounter words(options.tokenizer);
  words.add(text);
  return train_wordpiece(words, options);
}

Tokens learned(const std::string& text, const TrainerOptions& options) {
  const Tokens tokens = train(text, options);
  return {tokens.begin() + 5, tokens.end()};
}

TEST(WordPieceTrainer, JoinsTheMostFrequentPairFirst) {
  TrainerOptions options;
  // (##u, ##g) 3 + 2 times, then (h, ##ug) 3, (p, ##ug) 2; (p, ##u) then has count 1.
  EXPECT_EQ(learned("hug hug hug pug pug pun", options),
            (Tokens{"g", "h", "n", "p", "u", "##g", "##n", "##u", "##ug", "hug", "pug"}));
}

TEST(WordPieceTrainer, PutsTheSpecialTokensFirst) {
  const Tokens tokens = train("a", {});
  EXPECT_EQ(tokens, (Tokens{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"}));
}

TEST(WordPieceTrainer, StopsAtTheSizeAndAtTheLowestFrequency) {
  TrainerOptions options;
  options.size = 14;
  EXPECT_EQ(train("hug hug hug pug pug pun", options).size(), 14u);
  options.size = 1000;
  options.min_frequency = 3;
  EXPECT_EQ(learned("hug hug hug pug pug pun", options).back(), "hug");
  options.min_frequency = 1;
  EXPECT_EQ(learned("hug hug hug pug pug pun", options).back(), "pun");
  options.size = 12;
  EXPECT_THROW_WITH(
      train("hug hug hug pug pug pun", options), Error,
      "a vocabulary of 12 tokens has no room for the 13 special tokens and characters");
}

TEST(WordPieceTrainer, LimitsTheAlphabetToTheMostFrequentCharacters) {
  TrainerOptions options;
  options.max_alphabet = 2;
  options.min_frequency = 1;
  EXPECT_EQ(learned("ab ab ba cab", options), (Tokens{"a", "b", "##a", "##b", "ab", "ba"}));
}

TEST(WordPieceTrainer, NormalisesLikeTheTokenizer) {
  TrainerOptions options;
  options.min_frequency = 1;
  EXPECT_EQ(learned("\u00c9t\u00e9!", options), (Tokens{"!", "e", "t", "##e", "##t", "et", "ete"}));
  options.tokenizer = TokenizerOptions::cased();
  EXPECT_EQ(learned("Ab", options), (Tokens{"A", "b", "##b", "Ab"}));
  WordCounter words({});
  EXPECT_THROW_WITH(words.add("a \xFF"), Error, "byte 2");
  EXPECT_TRUE(words.counts().empty());
}

// Recounts all pairs for each join.
Tokens train_obviously(const std::map<std::string, int64_t>& counts, int64_t size,
                       int64_t min_frequency) {
  Tokens tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  std::set<char> first, other;
  for (const auto& [word, count] : counts) {
    first.insert(word.begin(), word.end());
    other.insert(word.begin() + 1, word.end());
  }
  for (const char c : first) tokens.push_back({c});
  for (const char c : other) tokens.push_back(std::string("##") + c);
  const auto id = [&](const std::string& token) {
    return std::find(tokens.begin(), tokens.end(), token) - tokens.begin();
  };
  std::vector<std::pair<Tokens, int64_t>> words;
  for (const auto& [word, count] : counts) {
    Tokens split;
    for (std::size_t k = 0; k < word.size(); ++k)
      split.push_back((k > 0 ? "##" : "") + word.substr(k, 1));
    words.emplace_back(split, count);
  }
  while (static_cast<int64_t>(tokens.size()) < size) {
    std::map<std::pair<std::ptrdiff_t, std::ptrdiff_t>, int64_t> pairs;
    for (const auto& [split, count] : words)
      for (std::size_t k = 1; k < split.size(); ++k)
        pairs[{id(split[k - 1]), id(split[k])}] += count;
    std::pair<std::ptrdiff_t, std::ptrdiff_t> best;
    int64_t most = 0;
    for (const auto& [pair, count] : pairs)
      if (count > most) most = count, best = pair;
    if (most < min_frequency || most == 0) break;
    const std::string a = tokens[static_cast<std::size_t>(best.first)];
    const std::string b = tokens[static_cast<std::size_t>(best.second)];
    const std::string joined = a + b.substr(2);
    if (id(joined) == static_cast<std::ptrdiff_t>(tokens.size())) tokens.push_back(joined);
    for (auto& [split, count] : words)
      for (std::size_t k = 0; k + 1 < split.size(); ++k)
        if (split[k] == a && split[k + 1] == b) {
          split[k] = joined;
          split.erase(split.begin() + static_cast<std::ptrdiff_t>(k) + 1);
        }
  }
  return tokens;
}

TEST(WordPieceTrainer, EqualsTheReferenceOnRandomWords) {
  std::mt19937 random(1);
  const auto below = [&](int count) {
    return std::uniform_int_distribution<int>(0, count - 1)(random);
  };
  for (int round = 0; round < 100; ++round) {
    std::map<std::string, int64_t> counts;
    std::string text;
    for (int k = 0; k < 60; ++k) {
      std::string word;
      for (int letters = 1 + below(8); letters > 0; --letters)
        word += static_cast<char>('a' + below(1 + round % 4));  // with a alone: aaaa overlaps
      ++counts[word];
      text += word + " ";
    }
    TrainerOptions options;
    options.size = 13 + below(60);
    options.min_frequency = 1 + below(3);
    ASSERT_EQ(train(text, options), train_obviously(counts, options.size, options.min_frequency))
        << text;
  }
}

TEST(WordPieceTrainer, TheTokenizerUsesWhatWasLearned) {
  const std::string text = "the cat sat on the mat, the bat sat on the cat; that is that.";
  TrainerOptions options;
  options.min_frequency = 1;
  const Tokens tokens = train(text, options);
  const auto tokenizer = Tokenizer::from_tokens(tokens, options.tokenizer, "learned");
  std::vector<int32_t> ids;
  tokenizer.append_ids(text, ids);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer.special().unknown), 0);
  EXPECT_EQ(ids.size(), 18u);  // 15 words and 3 marks, each one token
}

TEST(WordPieceTrainer, ReportsProgress) {
  TrainerOptions options;
  WordCounter words({});
  words.add("hug hug hug pug pug pun");
  std::vector<int64_t> seen;
  const auto tokens =
      train_wordpiece(words, options, [&](int64_t count) { seen.push_back(count); });
  EXPECT_EQ(seen, (std::vector<int64_t>{14, 15, 16}));
  EXPECT_EQ(tokens.size(), 16u);
}

}  // namespace
}  // namespace hydramix
