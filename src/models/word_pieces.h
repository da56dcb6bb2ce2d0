// SPDX-License-Identifier: Apache-2.0
// The tokens of a sentence that is given as words, each of which needs a label of its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hydramix/tokenizer.h"

namespace hydramix {

struct WordPieces {
  std::vector<int32_t> ids;  // [CLS], the pieces of all words, [SEP]
  // Where each word's first piece stands among the ids; -1 for a word that was cut off, or that has
  // no piece (control characters).
  std::vector<int64_t> places;
};

// Words that do not fit into max_length tokens are cut off, and all after them (0: no limit).
WordPieces word_pieces(std::span<const std::string> words, const Tokenizer& tokenizer,
                       int64_t max_length);

}  // namespace hydramix
