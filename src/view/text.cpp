// SPDX-License-Identifier: Apache-2.0
// Line breaking is greedy: two lines of a caption leave nothing to optimise.
#include "view/text.h"

#include <algorithm>
#include <sstream>

namespace hydramix {
namespace {

// An advance is 3/5 of the font size.
std::size_t characters_in(int64_t width, TextStyle style) {
  return static_cast<std::size_t>(std::max<int64_t>(0, 5 * width / (3 * style.size)));
}

}  // namespace

int64_t text_width(std::size_t characters, TextStyle style) {
  return (3 * style.size * static_cast<int64_t>(characters) + 4) / 5;
}

int64_t text_height(TextStyle style) { return style.size; }

int64_t text_ascent(TextStyle style) { return style.size * 3 / 4; }

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80) continue;  // a continuation byte of UTF-8
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
    // The last line takes all remaining words; shorten() then cuts it.
    if (joins || (!out.empty() && out.size() == lines))
      out.back() += " " + word;
    else
      out.push_back(word);
  }
  for (std::string& line : out) line = shorten(line, width, style);
  return out;
}

}  // namespace hydramix
