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

struct Utf8Character {
  uint32_t code = 0;
  std::size_t bytes = 0;  // 0: malformed
};

// The first character of a text that is not empty.
Utf8Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  uint32_t code = lead & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0u) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  const bool overlong = code < (bytes == 4 ? 0x10000u : bytes == 3 ? 0x800u : 0x80u);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return overlong || surrogate || code > 0x10FFFF ? Utf8Character{} : Utf8Character{code, bytes};
}

// East Asian characters and emoji, by their blocks.
bool is_wide(uint32_t code) {
  return (code >= 0x1100 && code <= 0x115F) || (code >= 0x2E80 && code <= 0xA4CF) ||
         (code >= 0xAC00 && code <= 0xD7A3) || (code >= 0xF900 && code <= 0xFAFF) ||
         (code >= 0xFE30 && code <= 0xFE6F) || (code >= 0xFF00 && code <= 0xFF60) ||
         (code >= 0x1F300 && code <= 0x1FAFF) || (code >= 0x20000 && code <= 0x3FFFD);
}

bool is_blank(char c) { return c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f'; }

}  // namespace

std::size_t text_columns(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    const Utf8Character c = first_character(text);
    columns += is_wide(c.code) ? 2 : 1;
    text.remove_prefix(std::max<std::size_t>(1, c.bytes));
  }
  return columns;
}

int64_t text_width(std::size_t columns, TextStyle style) {
  return (3 * style.size * static_cast<int64_t>(columns) + 4) / 5;
}

int64_t text_height(TextStyle style) { return style.size; }

int64_t text_ascent(TextStyle style) { return style.size * 3 / 4; }

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80) continue;  // a continuation byte of UTF-8
    out.push_back(is_blank(c) ? ' ' : byte >= ' ' && byte <= '~' ? c : '?');
  }
  return out;
}

std::string label_text(std::string_view text, std::size_t columns) {
  constexpr std::string_view kDots = "...";
  std::string out, cut;  // cut: what fits beside the dots
  std::size_t used = 0;
  while (!text.empty()) {
    const Utf8Character c = first_character(text);
    const bool control =
        c.code < 0x20 || (c.code >= 0x7F && c.code < 0xA0) || (c.code & 0xFFFEu) == 0xFFFE;
    if (c.bytes > 0 && !control)
      out += text.substr(0, c.bytes);
    else
      out += is_blank(text[0]) ? ' ' : '?';
    used += is_wide(c.code) ? 2 : 1;
    if (used + kDots.size() <= columns) cut = out;
    if (used > columns) return columns < kDots.size() ? "" : cut.append(kDots);
    text.remove_prefix(std::max<std::size_t>(1, c.bytes));
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
