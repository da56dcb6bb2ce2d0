// SPDX-License-Identifier: Apache-2.0
// BERT's normalisation, a character at a time with its place in the original: clean, put blanks
// around Chinese characters, decompose and drop accents, lower-case; in this order.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "hydramix/tokenizer.h"
#include "text/unicode.h"

namespace hydramix {

struct NormalCharacter {
  char32_t c;
  int64_t origin;  // the character of the original that it stands for, counted from 0
};

class Normalizer {
 public:
  explicit Normalizer(const TokenizerOptions& options) : options_(options) {}

  // Replaces `out` by what becomes of the text from byte `begin`, whose first character is number
  // `first` of the original. Returns how many characters were read. White space stays in `out`:
  // words end there. An Error counts bytes from the beginning of `text`.
  int64_t normalize(std::string_view text, std::size_t begin, int64_t first,
                    std::vector<NormalCharacter>& out) const;

 private:
  TokenizerOptions options_;
};

// Calls function(word) with each word of normalised characters: what lies between white space, and
// every punctuation mark for itself.
template <class Function>
void for_each_word(std::span<const NormalCharacter> characters, Function&& function) {
  const uint8_t* properties = unicode::properties();
  std::size_t begin = 0;
  for (std::size_t k = 0; k < characters.size(); ++k) {
    const uint8_t property = properties[characters[k].c];
    if ((property & (unicode::kWhiteSpace | unicode::kPunct)) == 0) continue;
    if (k > begin) function(characters.subspan(begin, k - begin));
    if ((property & unicode::kPunct) != 0) function(characters.subspan(k, 1));
    begin = k + 1;
  }
  if (begin < characters.size()) function(characters.subspan(begin));
}

}  // namespace hydramix
