// SPDX-License-Identifier: Apache-2.0
// Measuring and fitting lines of the built-in typeface. All characters are equally wide, so a text
// is as wide as it is long, in the PNG and in the SVG alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydramix {

struct TextStyle {
  int64_t scale = 1;  // pixels a dot
  bool bold = false;  // strokes two dots wide, and characters one dot wider
  bool operator==(const TextStyle&) const = default;
};

// Pixels from the left edge of one character to that of the next.
int64_t text_advance(TextStyle style);
// Pixels from the left edge of the first character to the right edge of the last; 0 if empty.
int64_t text_width(std::size_t characters, TextStyle style);
// Pixels from the top of a capital to the bottom of a descender.
int64_t text_height(TextStyle style);

// What the typeface can show: white space becomes a blank, every other character that is not
// printable ASCII one '?', however many bytes it takes in UTF-8.
std::string printable(std::string_view text);

// The text if it is at most `width` pixels wide, otherwise its beginning and "...". Empty if not
// even the dots fit.
std::string shorten(std::string_view text, int64_t width, TextStyle style);

// The text broken between words into at most `lines` lines of at most `width` pixels; what is left
// over ends in "...". Runs of blanks count as one.
std::vector<std::string> wrap(std::string_view text, int64_t width, std::size_t lines,
                              TextStyle style);

}  // namespace hydramix
