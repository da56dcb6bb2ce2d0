// SPDX-License-Identifier: Apache-2.0
// The built-in typeface: printable ASCII on a grid of 5 x 10 dots, drawn for this project so that
// a picture needs neither a font file nor a font library. Capitals take rows 0 to 7, small letters
// rows 2 to 7, descenders rows 8 and 9; the baseline lies under row 7.
#pragma once

#include <cstdint>

namespace hydramix {

inline constexpr int64_t kGlyphWidth = 5;
inline constexpr int64_t kGlyphHeight = 10;
inline constexpr int64_t kGlyphAscent = 8;

// Whether the dot at column x, row y of the character is inked. Nothing is inked outside the grid;
// a character that is not printable ASCII shows as '?'.
bool glyph_dot(char character, int64_t x, int64_t y);

}  // namespace hydramix
