// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <span>

#include "hydramix/error.h"
#include "text/unicode_tables.h"

namespace hydramix::unicode {
namespace {

constexpr char32_t kCharacters = 0x110000;

constexpr std::array<Range, 10> kWhiteSpaces = {{{0x09, 0x0D},
                                                 {0x20, 0x20},
                                                 {0x85, 0x85},
                                                 {0xA0, 0xA0},
                                                 {0x1680, 0x1680},
                                                 {0x2000, 0x200A},
                                                 {0x2028, 0x2029},
                                                 {0x202F, 0x202F},
                                                 {0x205F, 0x205F},
                                                 {0x3000, 0x3000}}};

constexpr std::array<Range, 8> kControls = {{{0x00, 0x08},
                                             {0x0B, 0x0C},
                                             {0x0E, 0x1F},
                                             {0x7F, 0x9F},
                                             {0xE000, 0xF8FF},
                                             {0xFFFD, 0xFFFD},
                                             {0xF0000, 0xFFFFD},
                                             {0x100000, 0x10FFFD}}};

constexpr std::array<Range, 4> kAsciiPunctuation = {
    {{0x21, 0x2F}, {0x3A, 0x40}, {0x5B, 0x60}, {0x7B, 0x7E}}};

// Google's BERT starts the block at 0x2B820, the Hugging Face tokenizer at 0x2B920.
constexpr std::array<Range, 8> kChineseBlocks = {{{0x3400, 0x4DBF},
                                                  {0x4E00, 0x9FFF},
                                                  {0xF900, 0xFAFF},
                                                  {0x20000, 0x2A6DF},
                                                  {0x2A700, 0x2B73F},
                                                  {0x2B740, 0x2B81F},
                                                  {0x2B920, 0x2CEAF},
                                                  {0x2F800, 0x2FA1F}}};

// Decompositions added in Unicode 13.0 and 16.0.
constexpr std::array<Range, 6> kNewDecompositions = {{{0x105C9, 0x105E4},
                                                      {0x11383, 0x11391},
                                                      {0x113C5, 0x113C8},
                                                      {0x11938, 0x11938},
                                                      {0x16121, 0x16128},
                                                      {0x16D68, 0x16D6A}}};

bool is_in(char32_t c, std::span<const Range> ranges) {
  for (const auto& range : ranges)
    if (c >= range.first && c <= range.last) return true;
  return false;
}

std::unique_ptr<uint8_t[]> make_properties() {
  auto table = std::make_unique<uint8_t[]>(kCharacters);
  const auto mark = [&](std::span<const Range> ranges, Property property) {
    for (const auto& range : ranges)
      for (char32_t c = range.first; c <= range.last; ++c) table[c] |= property;
  };
  mark(kWhiteSpaces, kWhiteSpace);
  mark(kControls, kControl);
  mark(kFormat, kControl);
  mark(kAsciiPunctuation, kPunct);
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
  return {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), 0};
}

Decomposition decompose(char32_t c) {
  if (c < 0x80 || is_in(c, kNewDecompositions)) return {{c}, 1};
  std::array<utf8proc_int32_t, 4> parts{};  // no canonical decomposition is longer
  int boundary_class = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                                             parts.size(), UTF8PROC_DECOMPOSE, &boundary_class);
  if (count < 1 || count > 4) return {{c}, 1};
  Decomposition result{{}, static_cast<std::size_t>(count)};
  for (std::size_t k = 0; k < result.size; ++k) result.parts[k] = static_cast<char32_t>(parts[k]);
  return result;
}

int combining_class(char32_t c) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return text[at++] & 0x7F;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() - at < length) refuse(text, at);
  char32_t c = lead & (0x7Fu >> length);
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(at + k) & 0xC0) != 0x80) refuse(text, at);
    c = c << 6 | (byte(at + k) & 0x3Fu);
  }
  const bool overlong = (length == 3 && c < 0x800) || (length == 4 && c < 0x10000);
  if (overlong || (c >= 0xD800 && c < 0xE000) || c >= kCharacters) refuse(text, at);
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

void check_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) next_character(text, at);
}

std::size_t column_width(char32_t c) {
  return static_cast<std::size_t>(
      std::max(0, utf8proc_charwidth(static_cast<utf8proc_int32_t>(c))));
}

}  // namespace hydramix::unicode
