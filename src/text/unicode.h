// SPDX-License-Identifier: Apache-2.0
// Character properties for BERT's tokenizer, equal to those of the Hugging Face tokenizer. Its
// parts use different Unicode versions, so the tables hold what the library itself does with each
// character (scripts/make_unicode_tables.js).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace hydramix::unicode {

// Properties of a character, or-ed together.
enum Property : uint8_t {
  kWhiteSpace = 1,   // the property White_Space
  kControl = 2,      // Cc, Cf, Co, but not tab, line feed, carriage return; and U+FFFD
  kPunct = 4,        // P*, and ASCII that is neither a letter, a digit nor a control character
  kMark = 8,         // Mn
  kChinese = 16,     // the CJK blocks that BERT puts blanks around
  kHasLower = 32,    // to_lower() changes it
  kDecomposes = 64,  // decompose() changes it
  kReorders = 128,   // combining_class() is not 0
};

// One byte for each character up to U+10FFFF; computed at the first call.
const uint8_t* properties();

struct Lower {
  char32_t first, second;  // second is 0 except for U+0130, i with a dot above
};
Lower to_lower(char32_t c);

// The full canonical decomposition, including Hangul; the character itself when it has none.
struct Decomposition {
  std::array<char32_t, 4> parts;
  std::size_t size;
};
Decomposition decompose(char32_t c);
// Orders marks as their canonical combining classes do; 0 for a character that does not move.
int combining_class(char32_t c);

// Reads the character at text[at] and advances `at`. Surrogates, overlong forms and values above
// U+10FFFF are not UTF-8: an Error names the byte, counted from `text`.
char32_t next_character(std::string_view text, std::size_t& at);
void append_utf8(char32_t c, std::string& out);
// The number of bytes before the first that is not UTF-8.
std::size_t valid_utf8_prefix(std::string_view text);
void check_utf8(std::string_view text);

// Columns of a terminal that the character takes: 0, 1 or 2.
std::size_t column_width(char32_t c);

}  // namespace hydramix::unicode
