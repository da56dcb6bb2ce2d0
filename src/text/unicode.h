// SPDX-License-Identifier: Apache-2.0
// Character properties for BERT's tokenizer, equal to those of the Hugging Face tokenizer. Its
// parts use different Unicode versions: 9.0 for categories (unicode_tables.cpp), 12.1 for
// decomposition, that of its compiler for lower case. The last two come from utf8proc, without the
// decompositions added since 13.0.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace hydramix::unicode {

// Properties of a character, or-ed together.
enum Property : uint8_t {
  kWhiteSpace = 1,   // the property White_Space
  kControl = 2,      // Cc, Cf, Co, but not tab, line feed, carriage return; and U+0000, U+FFFD
  kPunct = 4,        // P*, and ASCII that is neither a letter, a digit nor a control character
  kMark = 8,         // Mn
  kChinese = 16,     // the CJK blocks that BERT puts blanks around
  kHasLower = 32,    // to_lower() changes it
  kDecomposes = 64,  // decompose() changes it
  kReorders = 128,   // its canonical combining class is not 0
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
int combining_class(char32_t c);

// Reads the character at text[at] and advances `at`. Surrogates, overlong forms and values above
// U+10FFFF are not UTF-8: an Error names the byte, counted from `text`.
char32_t next_character(std::string_view text, std::size_t& at);
void append_utf8(char32_t c, std::string& out);
void check_utf8(std::string_view text);

// Columns of a terminal that the character takes: 0, 1 or 2.
std::size_t column_width(char32_t c);

}  // namespace hydramix::unicode
