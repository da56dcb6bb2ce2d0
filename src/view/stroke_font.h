// SPDX-License-Identifier: Apache-2.0
// Text on a canvas, without a font file: each letter is a few lines on a grid of 5 x 10 points,
// drawn with round ends and smooth edges. Letters are as wide as view/text.h says, so that its
// functions measure, shorten and wrap this text too.
#pragma once

#include <string_view>

#include "view/canvas.h"
#include "view/text.h"

namespace hydramix {

// (x, y) is the top left corner of the first capital. Printable ASCII; every other byte is drawn as
// '?'. Clipped to the canvas.
void draw_text(Canvas& canvas, int64_t x, int64_t y, std::string_view text, TextStyle style,
               Rgb colour);

}  // namespace hydramix
