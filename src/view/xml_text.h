// SPDX-License-Identifier: Apache-2.0
// Text and colours in the syntax of SVG.
#pragma once

#include <string>
#include <string_view>

#include "view/colour_map.h"

namespace hydramix {

// Replaces & < > " ' by entities, for text and attributes.
std::string xml_escaped(std::string_view text);
std::string hex(Rgb colour);  // #rrggbb

}  // namespace hydramix
