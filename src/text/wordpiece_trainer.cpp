// SPDX-License-Identifier: Apache-2.0
// Pair counts are updated incrementally: a join touches only the words that contain the pair. A
// heap entry keeps the count at the time of its push; a stale entry is pushed again when it reaches
// the top. A join therefore costs the number of changes times a logarithm.
#include "text/wordpiece_trainer.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "hydramix/error.h"
#include "text/tokenizer_contents.h"
#include "text/unicode.h"

namespace hydramix {
namespace {

struct Word {
  std::vector<int32_t> tokens;
  int64_t count;
};

class Trainer {
 public:
  Trainer(const WordCounter& words, const TrainerOptions& options);
  std::vector<std::string> train(const std::function<void(int64_t)>& progress);

 private:
  using Pair = std::pair<int32_t, int32_t>;
  struct PairHash {
    std::size_t operator()(const Pair& pair) const {
      const uint64_t key =
          static_cast<uint64_t>(pair.first) << 32 | static_cast<uint32_t>(pair.second);
      return static_cast<std::size_t>((key ^ key >> 29) * 0x9E3779B97F4A7C15);
    }
  };
  struct Occurrences {
    int64_t count = 0;
    std::vector<int32_t> words;  // may list a word twice, or one that has since lost the pair
  };
  struct Candidate {
    int64_t count;
    Pair pair;
    // The queue has its greatest on top: the most frequent pair, then that of the oldest tokens.
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  int32_t add_token(const std::string& token);
  void split_into_characters(const WordCounter& words);
  void count_pairs(int32_t word, int64_t sign);
  void join(const Pair& pair, int32_t joined);
  std::string joined_text(const Pair& pair) const;

  TrainerOptions options_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<Word> words_;
  std::unordered_map<Pair, Occurrences, PairHash> pairs_;
  std::vector<Pair> increased_;  // since the last push
  std::priority_queue<Candidate> queue_;
};

std::vector<char32_t> characters_of(const std::string& text) {
  std::vector<char32_t> result;
  for (std::size_t at = 0; at < text.size();) result.push_back(unicode::next_character(text, at));
  return result;
}

Trainer::Trainer(const WordCounter& words, const TrainerOptions& options) : options_(options) {
  for (const auto& token : kSpecialTokens) add_token(std::string(token));
  split_into_characters(words);
  HYDRAMIX_CHECK(static_cast<int64_t>(tokens_.size()) <= options.size, "a vocabulary of ",
                 options.size, " tokens has no room for the ", tokens_.size(),
                 " special tokens and characters of this text. Use a larger size or a smaller "
                 "alphabet.");
}

int32_t Trainer::add_token(const std::string& token) {
  const auto [known, is_new] = ids_.emplace(token, static_cast<int32_t>(tokens_.size()));
  if (is_new) tokens_.push_back(token);
  return known->second;
}

void Trainer::split_into_characters(const WordCounter& words) {
  std::map<char32_t, int64_t> frequency;
  for (const auto& [word, count] : words.counts())
    for (const char32_t c : characters_of(word)) frequency[c] += count;
  std::vector<std::pair<char32_t, int64_t>> alphabet(frequency.begin(), frequency.end());
  // Ties between characters go to the first in Unicode order.
  std::stable_sort(alphabet.begin(), alphabet.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (static_cast<int64_t>(alphabet.size()) > options_.max_alphabet)
    alphabet.resize(static_cast<std::size_t>(options_.max_alphabet));
  std::set<char32_t> kept;
  for (const auto& [c, count] : alphabet) kept.insert(c);

  std::set<char32_t> inside;  // characters after the first of a word
  std::vector<std::pair<std::vector<char32_t>, int64_t>> split;
  for (const auto& [word, count] : words.counts()) {
    auto characters = characters_of(word);
    if (!std::all_of(characters.begin(), characters.end(),
                     [&](char32_t c) { return kept.contains(c); }))
      continue;
    inside.insert(characters.begin() + 1, characters.end());
    split.emplace_back(std::move(characters), count);
  }
  std::sort(split.begin(), split.end());  // the order of a hash table is not reproducible

  const auto text_of = [](char32_t c) {
    std::string text;
    unicode::append_utf8(c, text);
    return text;
  };
  std::map<char32_t, int32_t> first, other;
  for (const char32_t c : kept) first[c] = add_token(text_of(c));
  for (const char32_t c : inside) other[c] = add_token(options_.tokenizer.prefix + text_of(c));
  for (const auto& [characters, count] : split) {
    Word word{{first.at(characters[0])}, count};
    for (std::size_t k = 1; k < characters.size(); ++k)
      word.tokens.push_back(other.at(characters[k]));
    words_.push_back(std::move(word));
  }
}

// Adds the pairs of a word to the counts, or subtracts them.
void Trainer::count_pairs(int32_t number, int64_t sign) {
  const Word& word = words_[static_cast<std::size_t>(number)];
  for (std::size_t k = 1; k < word.tokens.size(); ++k) {
    const Pair pair{word.tokens[k - 1], word.tokens[k]};
    Occurrences& occurrences = pairs_[pair];
    occurrences.count += sign * word.count;
    if (sign < 0) continue;
    if (occurrences.words.empty() || occurrences.words.back() != number)
      occurrences.words.push_back(number);
    increased_.push_back(pair);
  }
}

void Trainer::join(const Pair& pair, int32_t joined) {
  std::vector<int32_t> holders = std::move(pairs_[pair].words);
  std::sort(holders.begin(), holders.end());
  holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
  for (const int32_t number : holders) {
    auto& tokens = words_[static_cast<std::size_t>(number)].tokens;
    const auto is_pair = [&](std::size_t k) {
      return k + 1 < tokens.size() && tokens[k] == pair.first && tokens[k + 1] == pair.second;
    };
    bool holds = false;
    for (std::size_t k = 0; !holds && k < tokens.size(); ++k) holds = is_pair(k);
    if (!holds) continue;
    count_pairs(number, -1);
    std::size_t to = 0;
    for (std::size_t from = 0; from < tokens.size(); ++from) {
      const bool here = is_pair(from);
      tokens[to++] = here ? joined : tokens[from];
      if (here) ++from;
    }
    tokens.resize(to);
    count_pairs(number, +1);
  }
  pairs_.erase(pair);
}

std::string Trainer::joined_text(const Pair& pair) const {
  return tokens_[static_cast<std::size_t>(pair.first)] +
         tokens_[static_cast<std::size_t>(pair.second)].substr(options_.tokenizer.prefix.size());
}

std::vector<std::string> Trainer::train(const std::function<void(int64_t)>& progress) {
  for (std::size_t k = 0; k < words_.size(); ++k) count_pairs(static_cast<int32_t>(k), +1);
  while (static_cast<int64_t>(tokens_.size()) < options_.size) {
    std::sort(increased_.begin(), increased_.end());
    increased_.erase(std::unique(increased_.begin(), increased_.end()), increased_.end());
    for (const Pair& pair : increased_)
      if (const auto known = pairs_.find(pair); known != pairs_.end())
        queue_.push({known->second.count, pair});
    increased_.clear();
    if (queue_.empty()) break;

    const Candidate best = queue_.top();
    queue_.pop();
    const auto known = pairs_.find(best.pair);
    const int64_t count = known == pairs_.end() ? 0 : known->second.count;
    if (count != best.count) {
      // A count that rose was pushed then; one that fell is pushed here.
      if (count > 0 && count < best.count) queue_.push({count, best.pair});
      continue;
    }
    if (count < std::max<int64_t>(1, options_.min_frequency)) break;
    join(best.pair, add_token(joined_text(best.pair)));
    if (progress) progress(static_cast<int64_t>(tokens_.size()));
  }
  return std::move(tokens_);
}

}  // namespace

WordCounter::WordCounter(const TokenizerOptions& options)
    : options_(options), normalizer_(options) {}

void WordCounter::add(std::string_view text) {
  normalizer_.normalize(text, 0, 0, characters_);
  for_each_word(characters_, [&](std::span<const NormalCharacter> word) {
    if (static_cast<int64_t>(word.size()) > options_.longest_word) return;
    word_.clear();
    for (const auto& character : word) unicode::append_utf8(character.c, word_);
    ++counts_[word_];
  });
}

std::vector<std::string> train_wordpiece(const WordCounter& words, const TrainerOptions& options,
                                         const std::function<void(int64_t)>& progress) {
  return Trainer(words, options).train(progress);
}

}  // namespace hydramix
