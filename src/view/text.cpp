// SPDX-License-Identifier: Apache-2.0
// Greedy line breaking is enough here: two lines of a caption leave no choice worth optimising.
#include "view/text.h"

#include <algorithm>
#include <sstream>

#include "view/glyphs.h"

namespace hydramix {
namespace {

std::size_t characters_in(int64_t width, TextStyle style) {
  // The gap after the last character may hang out: it is blank.
  const int64_t gap = text_advance(style) - text_width(1, style);
  return static_cast<std::size_t>(std::max<int64_t>(0, (width + gap) / text_advance(style)));
}

}  // namespace

int64_t text_advance(TextStyle style) {
  return style.scale * (kGlyphWidth + 1 + (style.bold ? 1 : 0));
}

int64_t text_width(std::size_t characters, TextStyle style) {
  if (characters == 0) return 0;
  return static_cast<int64_t>(characters) * text_advance(style) - style.scale;
}

int64_t text_height(TextStyle style) { return style.scale * kGlyphHeight; }

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80) continue;  // not the first byte of a UTF-8 character
    const bool blank = c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
    out.push_back(blank ? ' ' : byte >= ' ' && byte <= '~' ? c : '?');
  }
  return out;
}

std::string shorten(std::string_view text, int64_t width, TextStyle style) {
  const std::size_t room = characters_in(width, style);
  if (text.size() <= room) return std::string(text);
  if (room < 3) return {};
  std::string_view head = text.substr(0, room - 3);
  while (!head.empty() && head.back() == ' ') head.remove_suffix(1);
  return std::string(head) + "...";
}

std::vector<std::string> wrap(std::string_view text, int64_t width, std::size_t lines,
                              TextStyle style) {
  const std::size_t room = characters_in(width, style);
  std::vector<std::string> out;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const bool joins = !out.empty() && out.back().size() + 1 + word.size() <= room;
    // The last line takes everything that is left; shorten() then cuts it.
    if (joins || (!out.empty() && out.size() == lines))
      out.back() += " " + word;
    else
      out.push_back(word);
  }
  for (std::string& line : out) line = shorten(line, width, style);
  return out;
}

}  // namespace hydramix
