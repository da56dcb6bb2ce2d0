// SPDX-License-Identifier: Apache-2.0
// The SVG elements that charts share. Coordinates are rounded to a tenth of a pixel.
#pragma once

#include <string>

#include "view/colour_map.h"

namespace hydramix {

enum class TextAnchor { kStart, kMiddle, kEnd };

// Empty if there are no words.
std::string svg_text(double x, double y, TextAnchor anchor, const std::string& words, Rgb colour,
                     bool bold = false);

// `style` holds further attributes, such as the stroke.
std::string svg_line(double x1, double y1, double x2, double y2, const std::string& style);

// The <svg> element of a chart: its elements over a background with round corners, with a title for
// screen readers and colours for dark backgrounds.
std::string svg_chart(double width, double height, const std::string& title,
                      const std::string& elements);

}  // namespace hydramix
