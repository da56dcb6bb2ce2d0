// SPDX-License-Identifier: Apache-2.0
#include "view/stroke_font.h"

#include <gtest/gtest.h>

#include <set>

namespace hydramix {
namespace {

constexpr Rgb kWhite{255, 255, 255}, kBlack{0, 0, 0};

std::vector<uint8_t> drawn_letter(std::string_view text, TextStyle style = {20, false}) {
  Canvas canvas(20, 30, kWhite);
  draw_text(canvas, 4, 4, text, style, kBlack);
  return canvas.bytes();
}

int64_t inked(const std::vector<uint8_t>& bytes) {
  int64_t sum = 0;
  for (const uint8_t byte : bytes) sum += 255 - byte;
  return sum / (3 * 255);
}

TEST(StrokeFont, LettersDiffer) {
  std::set<std::vector<uint8_t>> letters;
  for (char c = ' '; c <= '~'; ++c) letters.insert(drawn_letter(std::string(1, c)));
  EXPECT_EQ(letters.size(), 95u);
  EXPECT_EQ(inked(drawn_letter(" ")), 0);
  EXPECT_EQ(drawn_letter("\x01"), drawn_letter("?"));
}

// A letter of size 20 takes 12 pixels: its lines lie in the cell, down to the descender.
TEST(StrokeFont, LettersStayInTheirCells) {
  for (char c = '!'; c <= '~'; ++c) {
    Canvas canvas(20, 30, kWhite);
    draw_text(canvas, 4, 4, std::string(1, c), {20, false}, kBlack);
    int64_t inside = 0;
    for (int64_t y = 0; y < 30; ++y)
      for (int64_t x = 0; x < 20; ++x) {
        if (canvas.at(x, y) == kWhite) continue;
        ++inside;
        EXPECT_TRUE(x >= 4 && x < 16 && y >= 4 && y < 26) << c << " at " << x << ", " << y;
      }
    EXPECT_GT(inside, 3) << c;
  }
}

// The bar is 18 pixels high, and the pen 1.7 wide.
TEST(StrokeFont, LinesHaveTheWidthOfThePen) {
  EXPECT_NEAR(static_cast<double>(inked(drawn_letter("|"))), 18 * 1.7, 4);
  EXPECT_GT(inked(drawn_letter("|", {20, true})), inked(drawn_letter("|")) * 5 / 4);
}

TEST(StrokeFont, IsClippedToTheCanvas) {
  Canvas canvas(10, 8, kWhite);
  draw_text(canvas, -30, -5, "clipped at both ends", {16, true}, kBlack);
  draw_text(canvas, 300, 300, "outside", {16, true}, kBlack);
  EXPECT_GT(inked(canvas.bytes()), 0);
}

TEST(StrokeFont, TextIsAsWideAsMeasured) {
  Canvas canvas(200, 30, kWhite);
  draw_text(canvas, 0, 4, "HHHHHHHHHH", {15, false}, kBlack);
  int64_t last = 0;
  for (int64_t x = 0; x < 200; ++x)
    for (int64_t y = 0; y < 30; ++y)
      if (!(canvas.at(x, y) == kWhite)) last = x;
  EXPECT_LE(last, text_width(10, {15, false}));
  EXPECT_GE(last, text_width(10, {15, false}) - 4);
}

}  // namespace
}  // namespace hydramix
