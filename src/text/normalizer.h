// SPDX-License-Identifier: Apache-2.0
// BERT's normalisation, which keeps the original position of each character. In this order: clean,
// put blanks around Chinese characters, decompose and drop accents, lower-case.
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
  int64_t origin;  // index of its character in the original text
};

class Normalizer {
 public:
  explicit Normalizer(const TokenizerOptions& options) : options_(options) {}

  // Normalises the text from byte `begin` into `out`; its first character is number `first` of the
  // original. Returns the number of characters read. White space stays in `out`, because words end
  // there. An Error counts bytes from the beginning of `text`.
  int64_t normalize(std::string_view text, std::size_t begin, int64_t first,
                    std::vector<NormalCharacter>& out) const;

 private:
  TokenizerOptions options_;
};

// Calls function(word) with each word of normalised characters: split at white space, with every
// punctuation mark a word of its own.
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
