// SPDX-License-Identifier: Apache-2.0
// Learns a WordPiece vocabulary from text, as the Hugging Face trainer does: words start as
// characters, those after the first with the prefix "##". The most frequent pair of neighbours
// becomes a token, repeatedly. Equal text gives an equal vocabulary in any order of reading: ties
// go to the pair whose tokens are older.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hydramix/tokenizer.h"
#include "text/normalizer.h"

namespace hydramix {

struct TrainerOptions {
  int64_t size = 30522;       // tokens including the special ones; fewer when the text has no more
  int64_t min_frequency = 2;  // minimum count of a pair that becomes a token
  int64_t max_alphabet = 1000;  // the most frequent characters; words with others are skipped
  TokenizerOptions tokenizer;
};

// Counts the words of normalised text.
class WordCounter {
 public:
  explicit WordCounter(const TokenizerOptions& options);
  // Throws Error on bytes that are not UTF-8; then none of this text is counted.
  void add(std::string_view text);
  const std::unordered_map<std::string, int64_t>& counts() const { return counts_; }

 private:
  TokenizerOptions options_;
  Normalizer normalizer_;
  std::unordered_map<std::string, int64_t> counts_;
  std::vector<NormalCharacter> characters_;
  std::string word_;
};

// The tokens in the order of their ids: [PAD], [UNK], [CLS], [SEP], [MASK], the alphabet, the
// pieces of one character, then the joined pairs. `progress` is called after each join with the
// number of tokens so far. Characters that do not fit into options.size are an Error.
std::vector<std::string> train_wordpiece(const WordCounter& words, const TrainerOptions& options,
                                         const std::function<void(int64_t tokens)>& progress = {});

}  // namespace hydramix
