// SPDX-License-Identifier: Apache-2.0
// The typeface and its measures: what the layout counts on when it keeps texts apart.
#include "view/text.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "view/canvas.h"
#include "view/glyphs.h"

namespace hydramix {
namespace {

constexpr TextStyle kPlain{1, false}, kBold{1, true}, kDouble{2, false};
constexpr Rgb kWhite{255, 255, 255}, kBlack{0, 0, 0};

std::string dots(char character) {
  std::string out;
  for (int64_t y = 0; y < kGlyphHeight; ++y)
    for (int64_t x = 0; x < kGlyphWidth; ++x) out += glyph_dot(character, x, y) ? '#' : '.';
  return out;
}

TEST(Glyphs, EveryPrintableCharacterHasAShapeOfItsOwn) {
  std::map<std::string, char> seen;
  for (char c = ' '; c <= '~'; ++c) {
    const auto [place, fresh] = seen.emplace(dots(c), c);
    EXPECT_TRUE(fresh) << "'" << c << "' looks like '" << place->second << "'";
  }
  EXPECT_EQ(dots(' ').find('#'), std::string::npos);
}

TEST(Glyphs, UnknownCharactersShowAsAQuestionMark) {
  EXPECT_EQ(dots('\t'), dots('?'));
  EXPECT_EQ(dots('\x7f'), dots('?'));
  EXPECT_EQ(dots('\xff'), dots('?'));
}

TEST(Glyphs, OnlyDescendersReachBelowTheBaseline) {
  const std::string descending = "gjpqy,;_()[]{}|/\\";
  for (char c = ' '; c <= '~'; ++c) {
    const std::string below = dots(c).substr(static_cast<std::size_t>(kGlyphWidth * kGlyphAscent));
    const bool descends = below.find('#') != std::string::npos;
    EXPECT_EQ(descends, descending.find(c) != std::string::npos) << c;
  }
}

// Ink of every character, alone, stays within the width the layout counts on.
TEST(Text, IsNeverWiderThanItsMeasure) {
  for (const TextStyle style : {kPlain, kBold, kDouble, TextStyle{3, true}})
    for (char c = ' '; c <= '~'; ++c) {
      Canvas canvas(60, 60, kWhite);
      canvas.write(std::string(2, c), 0, 0, style, kBlack);
      for (int64_t y = 0; y < 60; ++y)
        for (int64_t x = 0; x < 60; ++x)
          if (canvas.at(x, y) == kBlack) {
            ASSERT_LT(x, text_width(2, style)) << c;
            ASSERT_LT(y, text_height(style)) << c;
          }
    }
  EXPECT_EQ(text_width(0, kPlain), 0);
}

TEST(Text, ScalesByWholeDots) {
  Canvas small(20, 20, kWhite), large(40, 40, kWhite);
  small.write("Rg", 1, 2, kPlain, kBlack);
  large.write("Rg", 2, 4, kDouble, kBlack);
  for (int64_t y = 0; y < 40; ++y)
    for (int64_t x = 0; x < 40; ++x) ASSERT_EQ(large.at(x, y), small.at(x / 2, y / 2));
}

TEST(Text, IsCutOffAtTheEdgeOfTheCanvas) {
  Canvas canvas(8, 8, kWhite);
  canvas.write("MMM", -3, -3, kDouble, kBlack);
  canvas.fill({-5, 6, 100, 100}, {1, 2, 3});
  EXPECT_EQ(canvas.at(7, 7), (Rgb{1, 2, 3}));
}

TEST(Text, PrintableKeepsOneCharacterForOne) {
  EXPECT_EQ(printable("a\tb\nc"), "a b c");
  EXPECT_EQ(printable("delta \xce\xb4, \xe2\x88\x91"), "delta ?, ?");
  EXPECT_EQ(printable(std::string_view("\x01\x7f", 2)), "??");
}

TEST(Text, ShortensOnlyWhatDoesNotFit) {
  EXPECT_EQ(shorten("abcdef", text_width(6, kPlain), kPlain), "abcdef");
  EXPECT_EQ(shorten("abcdef", text_width(6, kPlain) - 1, kPlain), "ab...");
  EXPECT_EQ(shorten("ab cdef", text_width(6, kPlain), kPlain), "ab...");
  EXPECT_EQ(shorten("abcdef", text_width(2, kPlain), kPlain), "");
  EXPECT_EQ(shorten("abcdef", -5, kPlain), "");
}

TEST(Text, WrapsBetweenWordsAndEndsInDots) {
  using Lines = std::vector<std::string>;
  const int64_t ten = text_width(10, kPlain);
  EXPECT_EQ(wrap("", ten, 2, kPlain), Lines{});
  EXPECT_EQ(wrap("one two", ten, 2, kPlain), Lines{"one two"});
  EXPECT_EQ(wrap("one  two three", ten, 2, kPlain), (Lines{"one two", "three"}));
  EXPECT_EQ(wrap("one two three four", ten, 2, kPlain), (Lines{"one two", "three four"}));
  EXPECT_EQ(wrap("one two three four five", ten, 2, kPlain), (Lines{"one two", "three f..."}));
  EXPECT_EQ(wrap("incomprehensibilities abound", ten, 2, kPlain), (Lines{"incompr...", "abound"}));
}

}  // namespace
}  // namespace hydramix
