// SPDX-License-Identifier: Apache-2.0
#include "models/word_pieces.h"

namespace hydramix {

WordPieces word_pieces(std::span<const std::string> words, const Tokenizer& tokenizer,
                       int64_t max_length) {
  WordPieces pieces{{tokenizer.special().cls}, {}};
  bool full = false;
  for (const auto& word : words) {
    const auto before = pieces.ids.size();
    if (!full) tokenizer.append_ids(word, pieces.ids);
    full = full || (max_length > 0 && std::ssize(pieces.ids) >= max_length);
    if (full) pieces.ids.resize(before);
    pieces.places.push_back(pieces.ids.size() > before ? static_cast<int64_t>(before) : -1);
  }
  pieces.ids.push_back(tokenizer.special().sep);
  return pieces;
}

}  // namespace hydramix
