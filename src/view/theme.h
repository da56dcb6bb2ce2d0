// SPDX-License-Identifier: Apache-2.0
// The colours of all pictures. Elements name the colours for a light background. A style sheet
// inside the picture replaces them where the reader prefers a dark one; it applies in an SVG file,
// in an <img> of it, and in HTML. A viewer without style sheets shows the light picture, which has
// a background of its own.
#pragma once

#include <string>
#include <string_view>

#include "view/colour_map.h"

namespace hydramix {

inline constexpr Rgb kPaper{255, 255, 255}, kInk{28, 32, 42}, kMuted{98, 105, 118};
inline constexpr Rgb kFrame{188, 193, 202}, kGrid{236, 238, 241};
inline constexpr Rgb kFaint{176, 182, 192};  // lines that are not the subject

// The colour that takes the place of `light` on a dark background: neutral ones have partners,
// others keep their hue and become light enough to see.
Rgb dark_colour(Rgb light);

// A <style> element for the elements of an SVG: its colours in fill="..." and stroke="...", and its
// images of matrices, whose lightness it inverts. The near-white zero of the colour map becomes
// near-black; red and blue keep their meaning. Photos stay as they are: an image with a class.
std::string dark_style(std::string_view elements);

}  // namespace hydramix
