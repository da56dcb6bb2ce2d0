// SPDX-License-Identifier: Apache-2.0
// Texts and colours as SVG files write them.
#pragma once

#include <string>
#include <string_view>

#include "view/colour_map.h"

namespace hydramix {

// Fit to stand between tags and in quotes: & < > " ' become entities.
std::string xml_escaped(std::string_view text);
std::string hex(Rgb colour);  // #rrggbb

}  // namespace hydramix
