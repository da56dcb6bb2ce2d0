// SPDX-License-Identifier: Apache-2.0
#include "view/theme.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "view/xml_text.h"

namespace hydramix {
namespace {

constexpr std::array<std::pair<Rgb, Rgb>, 6> kNeutral{{{kPaper, {20, 23, 29}},
                                                       {kInk, {232, 234, 239}},
                                                       {kMuted, {163, 171, 185}},
                                                       {kFrame, {73, 80, 92}},
                                                       {kGrid, {38, 43, 52}},
                                                       {kFaint, {92, 100, 114}}}};
constexpr double kLightEnough = 0.72;  // in Oklab; 6 : 1 and more against the dark paper

Rgb parsed(std::string_view digits) {
  const auto value = std::strtoul(std::string(digits).c_str(), nullptr, 16);
  return {static_cast<uint8_t>(value >> 16), static_cast<uint8_t>(value >> 8 & 0xFFu),
          static_cast<uint8_t>(value & 0xFFu)};
}

}  // namespace

Rgb dark_colour(Rgb light) {
  for (const auto& [from, to] : kNeutral)
    if (from == light) return to;
  Oklab colour = oklab_from_rgb(light);
  colour.L = std::max(colour.L, kLightEnough);
  return rgb_from_oklab(colour);
}

std::string dark_style(std::string_view elements) {
  std::string rules;
  for (const std::string property : {"fill", "stroke"}) {
    const std::string start = property + "=\"#";
    std::set<std::string> found;
    for (auto at = elements.find(start); at != std::string_view::npos;
         at = elements.find(start, at + 1))
      found.emplace(elements.substr(at + start.size(), 6));
    for (const std::string& digits : found)
      rules += fmt::format("svg [{0}=\"#{1}\"]{{{0}:{2}}}\n", property, digits,
                           hex(dark_colour(parsed(digits))));
  }
  if (elements.find("<image x") != std::string_view::npos)
    rules += "svg image{filter:invert(1) hue-rotate(180deg)}\n";
  return "<style>@media (prefers-color-scheme:dark){\n" + rules + "}</style>\n";
}

}  // namespace hydramix
