// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>

#include "hydramix/error.h"
#include "text/unicode_tables.h"

namespace hydramix::unicode {
namespace {

constexpr char32_t kCharacters = 0x110000;

// The last entry of a sorted table that begins at or before c; nullptr when there is none.
template <class Entry, class Key>
const Entry* entry_at(std::span<const Entry> table, char32_t c, Key Entry::*begin) {
  const auto after = std::ranges::upper_bound(table, c, {}, begin);
  return after == table.begin() ? nullptr : &*std::prev(after);
}

std::unique_ptr<uint8_t[]> make_properties() {
  auto table = std::make_unique<uint8_t[]>(kCharacters);
  const auto mark = [&](std::span<const Range> ranges, Property property) {
    for (const auto& range : ranges)
      for (char32_t c = range.first; c <= range.last; ++c) table[c] |= property;
  };
  mark(kWhiteSpaces, kWhiteSpace);
  mark(kControls, kControl);
  mark(kPunctuation, kPunct);
  mark(kNonspacingMarks, kMark);
  mark(kChineseBlocks, kChinese);
  for (char32_t c = 0; c < kCharacters; ++c) {
    const Lower lower = to_lower(c);
    if (lower.first != c) table[c] |= kHasLower;
    const Decomposition decomposition = decompose(c);
    if (decomposition.size != 1 || decomposition.parts[0] != c) table[c] |= kDecomposes;
    if (combining_class(c) != 0) table[c] |= kReorders;
  }
  return table;
}

[[noreturn]] void refuse(std::string_view text, std::size_t at) {
  char byte[8];
  std::snprintf(byte, sizeof byte, "0x%02X", static_cast<unsigned char>(text[at]));
  throw Error(concat("the text is not UTF-8: byte ", at, " (", byte,
                     ") begins no valid character. Convert the text, for example with iconv -t "
                     "UTF-8."));
}

}  // namespace

const uint8_t* properties() {
  static const std::unique_ptr<uint8_t[]> table = make_properties();
  return table.get();
}

Lower to_lower(char32_t c) {
  if (c == 0x130) return {'i', 0x307};
  const LowerCase* run = entry_at(kLowerCases, c, &LowerCase::first);
  if (run == nullptr || c > run->last || (c - run->first) % run->step != 0) return {c, 0};
  return {static_cast<char32_t>(static_cast<int32_t>(c) + run->distance), 0};
}

Decomposition decompose(char32_t c) {
  if (c >= 0xAC00 && c <= 0xD7A3) {  // Hangul: 19 leading consonants, 21 vowels, 27 or no last one
    const char32_t syllable = c - 0xAC00, last = syllable % 28;
    return {{0x1100 + syllable / 588, 0x1161 + syllable % 588 / 28, 0x11A7 + last},
            last > 0 ? 3U : 2U};
  }
  const Canonical* known = entry_at(kDecompositions, c, &Canonical::c);
  if (known == nullptr || known->c != c) return {{c}, 1};
  const auto end = std::ranges::find(known->parts, char32_t{0});
  return {known->parts, static_cast<std::size_t>(end - known->parts.begin())};
}

int combining_class(char32_t c) {
  const CombiningClass* run = entry_at(kCombiningClasses, c, &CombiningClass::first);
  return run == nullptr || c > run->last ? 0 : run->rank;
}

namespace {

// Reads the character at text[at] and returns its number of bytes, 0 if it is not UTF-8.
std::size_t read_character(std::string_view text, std::size_t at, char32_t& c) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char lead = byte(at);
  c = lead;
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() - at < length) return 0;
  c = lead & (0x7Fu >> length);
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(at + k) & 0xC0) != 0x80) return 0;
    c = c << 6 | (byte(at + k) & 0x3Fu);
  }
  const bool overlong = (length == 3 && c < 0x800) || (length == 4 && c < 0x10000);
  return overlong || (c >= 0xD800 && c < 0xE000) || c >= kCharacters ? 0 : length;
}

}  // namespace

char32_t next_character(std::string_view text, std::size_t& at) {
  char32_t c;
  const std::size_t length = read_character(text, at, c);
  if (length == 0) refuse(text, at);
  at += length;
  return c;
}

void append_utf8(char32_t c, std::string& out) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    uint64_t eight;  // most text is ASCII: check eight bytes at once
    if (at + sizeof eight <= text.size()) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080U) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    char32_t c;
    const std::size_t length = read_character(text, at, c);
    if (length == 0) return at;
    at += length;
  }
  return at;
}

void check_utf8(std::string_view text) {
  if (const std::size_t at = valid_utf8_prefix(text); at < text.size()) refuse(text, at);
}

std::size_t column_width(char32_t c) {
  if ((properties()[c] & (kMark | kControl)) != 0) return 0;
  // The blocks of East Asian scripts and of pictographs.
  static constexpr char32_t kWide[][2] = {
      {0x1100, 0x115F},  {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xA960, 0xA97C},
      {0xAC00, 0xD7A3},  {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
      {0xFFE0, 0xFFE6},  {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF},
      {0x20000, 0x3FFFD}};
  const bool wide = std::any_of(std::begin(kWide), std::end(kWide),
                                [&](const auto& block) { return block[0] <= c && c <= block[1]; });
  return wide ? 2 : 1;
}

}  // namespace hydramix::unicode
