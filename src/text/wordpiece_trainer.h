// SPDX-License-Identifier: Apache-2.0
// Learns a WordPiece vocabulary from text, as the Hugging Face trainer does: words start as
// characters, those behind the first with the prefix "##"; the most frequent pair of neighbours
// becomes a token, again and again. Equal text gives an equal vocabulary, in whatever order it is
// read: ties go to the pair whose tokens are older.
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
  int64_t size = 30522;         // tokens with the special ones; fewer when the text gives no more
  int64_t min_frequency = 2;    // of a pair that becomes a token
  int64_t max_alphabet = 1000;  // characters, the most frequent; words with others are left out
  TokenizerOptions tokenizer;
};

// Words after normalisation and how often each stands in the text.
class WordCounter {
 public:
  explicit WordCounter(const TokenizerOptions& options);
  // Bytes that are not UTF-8 are an Error, and then nothing of this text is counted.
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
// pieces of one character, then what was joined. `progress` is called after each join with the
// number of tokens so far. Characters that do not fit into options.size are an Error.
std::vector<std::string> train_wordpiece(const WordCounter& words, const TrainerOptions& options,
                                         const std::function<void(int64_t tokens)>& progress = {});

}  // namespace hydramix
