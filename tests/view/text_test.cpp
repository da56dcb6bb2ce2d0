// SPDX-License-Identifier: Apache-2.0
// Fitting text into a width.
#include "view/text.h"

#include <gtest/gtest.h>

#include <string>

namespace hydramix {
namespace {

constexpr TextStyle kPlain{10, false};

TEST(Text, IsThreeFifthsOfItsSizeWideALetter) {
  EXPECT_EQ(text_width(0, kPlain), 0);
  EXPECT_EQ(text_width(10, kPlain), 60);
  EXPECT_EQ(text_width(1, {11, true}), 7);  // 6.6, rounded up
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

TEST(Text, LabelsKeepLettersOfAllScriptsAndNothingThatXmlForbids) {
  const std::string water = "\xe6\xb0\xb4";  // one character, two columns
  EXPECT_EQ(label_text("na\xc3\xafve", 5), "na\xc3\xafve");
  EXPECT_EQ(label_text("na\xc3\xafve", 4), "n...");
  EXPECT_EQ(text_columns("na\xc3\xafve"), 5u);
  EXPECT_EQ(text_columns(water + water), 4u);
  EXPECT_EQ(label_text(water + water, 4), water + water);
  EXPECT_EQ(label_text(water + water + water, 5), water + "...");
  EXPECT_EQ(label_text("abcd", 2), "");
  EXPECT_EQ(label_text(std::string_view("a\tb\0\x1f\x7f", 6), 9), "a b???");
  // Malformed: a lone continuation, cut short, overlong, a surrogate, U+FFFF.
  EXPECT_EQ(label_text("\x80", 9), "?");
  EXPECT_EQ(label_text("\xe6\xb0", 9), "??");
  EXPECT_EQ(label_text("\xc0\xaf", 9), "??");
  EXPECT_EQ(label_text("\xed\xa0\x80", 9), "???");
  EXPECT_EQ(label_text("\xef\xbf\xbf", 9), "?");
}

}  // namespace
}  // namespace hydramix
