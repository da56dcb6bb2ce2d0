// SPDX-License-Identifier: Apache-2.0
// Encodes text to ids: splits words at white space and punctuation, and pieces by the trie. ASCII
// goes byte by byte through a table into the trie. Text between two blanks with any other character
// is normalised first.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hydramix/tokenizer.h"
#include "text/normalizer.h"
#include "text/piece_trie.h"

namespace hydramix {

using Offsets = std::vector<std::array<int64_t, 2>>;

// Receives the ids of a text. After the word that brings them to `limit` or more, no other follows.
struct EncoderOutput {
  std::vector<int32_t>& ids;
  Offsets* offsets = nullptr;  // may be null
  std::size_t limit = std::numeric_limits<std::size_t>::max();
  bool full = false;

  void end_word() { full = ids.size() >= limit; }
};

class TextEncoder {
 public:
  // Token k has id k; empty tokens never match.
  TextEncoder(std::span<const std::string> tokens, int32_t unknown,
              const TokenizerOptions& options);

  // Appends the ids of the text from byte `begin`, whose first character is number `first` of the
  // original, and their offsets if requested. Returns the number of characters read, which means
  // nothing when the output is full. An Error about bytes that are not UTF-8 counts them from the
  // beginning of `text`.
  int64_t append(std::string_view text, std::size_t begin, int64_t first, EncoderOutput& out) const;

 private:
  enum class Kind : uint8_t { kLetter, kBlank, kPunctuation, kOther };

  std::size_t append_ascii_word(std::string_view text, std::size_t begin,
                                std::vector<int32_t>& ids) const;
  struct Scratch {
    std::vector<NormalCharacter> characters;
    std::string bytes;
    std::vector<int64_t> origins;  // of each byte
  };
  int64_t append_normalized(std::string_view text, std::size_t begin, int64_t first,
                            EncoderOutput& out, Scratch& scratch) const;
  Kind kind(char byte) const { return kinds_[static_cast<unsigned char>(byte)]; }
  // Number of bytes of the word that a piece covers.
  std::size_t piece_bytes(int32_t id, bool continues) const {
    return token_bytes_[static_cast<std::size_t>(id)] - (continues ? options_.prefix.size() : 0);
  }

  TokenizerOptions options_;
  Normalizer normalizer_;
  PieceTrie trie_;
  int32_t unknown_;
  std::vector<std::size_t> token_bytes_;
  std::array<Kind, 256> kinds_{};
  std::array<unsigned char, 256> letters_{};  // the normalised ASCII letter
};

}  // namespace hydramix
