// SPDX-License-Identifier: Apache-2.0
// Fits text into the width of a picture. The text of our SVG pages is monospaced, with letters 0.6
// of the font size wide, so a line is as wide as it is long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydramix {

struct TextStyle {
  int64_t size = 10;  // of the font, in pixels
  bool bold = false;
  bool operator==(const TextStyle&) const = default;
};

// Columns of a monospaced font: wide characters, such as Chinese ones, take two.
std::size_t text_columns(std::string_view text);

int64_t text_width(std::size_t columns, TextStyle style);  // pixels, rounded up
int64_t text_height(TextStyle style);  // pixels from the top of a capital to a descender's bottom
int64_t text_ascent(TextStyle style);  // pixels from the top of a capital to the baseline

// Printable ASCII: white space becomes a blank, every other character a '?', however many bytes it
// takes in UTF-8.
std::string printable(std::string_view text);

// UTF-8 that XML may hold: white space becomes a blank; other control characters and malformed
// bytes become a '?'. At most `columns` columns; a longer text ends in "...".
std::string label_text(std::string_view text, std::size_t columns);

// The text if it is at most `width` pixels wide, otherwise its beginning and "...". Empty if not
// even the dots fit.
std::string shorten(std::string_view text, int64_t width, TextStyle style);

// Breaks the text between words into at most `lines` lines of at most `width` pixels. The last line
// ends in "..." where more follows. Runs of blanks count as one.
std::vector<std::string> wrap(std::string_view text, int64_t width, std::size_t lines,
                              TextStyle style);

}  // namespace hydramix
