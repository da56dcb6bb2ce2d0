// SPDX-License-Identifier: Apache-2.0
#include "cli/contact_sheet.h"

#include <algorithm>

#include "hydramix/error.h"
#include "images/resize.h"
#include "view/stroke_font.h"
#include "view/theme.h"

namespace hydramix {
namespace {

constexpr int64_t kColumns = 8, kTileSide = 160, kTileGap = 14, kSheetMargin = 36;
constexpr int64_t kCaptionHeight = 40, kSectionGap = 22, kSectionHeight = 32, kHeaderHeight = 62;
constexpr TextStyle kSheetTitle{24, true}, kSectionTitle{15, true}, kTileName{12, true},
    kSmallText{11, false};

// Pixels stay squares where they fit evenly; otherwise the image is resized.
Canvas tile_canvas(const Image& image) {
  const bool even = kTileSide % image.height == 0 && kTileSide % image.width == 0;
  const int64_t height = even ? image.height : kTileSide, width = even ? image.width : kTileSide;
  const Image shown =
      even ? image
           : resize(image,
                    {{0, 0, static_cast<double>(image.height), static_cast<double>(image.width)},
                     {height, width},
                     {0, 0, height, width}});
  Canvas pixels(width, height, kPaper);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const uint8_t* p = shown.pixel(y, x);
      pixels.set(x, y, {p[0], p[1], p[2]});
    }
  Canvas tile(kTileSide, kTileSide, kPaper);
  tile.draw(pixels, {0, 0, kTileSide, kTileSide});
  return tile;
}

int64_t tile_rows(const SheetSection& section) {
  return (static_cast<int64_t>(section.tiles.size()) + kColumns - 1) / kColumns;
}

void draw_tile(Canvas& page, const SheetTile& tile, int64_t x, int64_t y) {
  page.fill({x - 1, y - 1, kTileSide + 2, kTileSide + 2}, kFrame);
  page.draw(tile_canvas(tile.image), {x, y, kTileSide, kTileSide});
  const int64_t below = y + kTileSide + 6;
  draw_text(page, x, below, shorten(printable(tile.name), kTileSide, kTileName), kTileName, kInk);
  draw_text(page, x, below + 15, shorten(printable(tile.note), kTileSide, kSmallText), kSmallText,
            kMuted);
}

}  // namespace

Canvas draw_sheet(const ContactSheet& sheet) {
  constexpr int64_t kWidth = 2 * kSheetMargin + kColumns * (kTileSide + kTileGap) - kTileGap;
  int64_t height = kSheetMargin + kHeaderHeight + kSheetMargin;
  int64_t tiles = 0;
  for (const auto& section : sheet.sections) {
    tiles += static_cast<int64_t>(section.tiles.size());
    height += kSectionHeight + tile_rows(section) * (kTileSide + kCaptionHeight) + kSectionGap;
  }
  HYDRAMIX_CHECK(tiles > 0, "contact sheet: there is no picture to show.");

  Canvas page(kWidth, height - kSectionGap, kPaper);
  int64_t y = kSheetMargin;
  constexpr int64_t kTextWidth = kWidth - 2 * kSheetMargin;
  draw_text(page, kSheetMargin, y, shorten(printable(sheet.title), kTextWidth, kSheetTitle),
            kSheetTitle, kInk);
  draw_text(page, kSheetMargin, y + 33, shorten(printable(sheet.note), kTextWidth, kSmallText),
            kSmallText, kMuted);
  y += kHeaderHeight;
  for (const auto& section : sheet.sections) {
    page.fill({kSheetMargin, y, kTextWidth, 1}, kFrame);
    const int64_t used = text_width(section.title.size() + 2, kSectionTitle);
    draw_text(page, kSheetMargin, y + 11, section.title, kSectionTitle, kInk);
    draw_text(page, kSheetMargin + used, y + 14,
              shorten(printable(section.note), kTextWidth - used, kSmallText), kSmallText, kMuted);
    y += kSectionHeight;
    for (std::size_t i = 0; i < section.tiles.size(); ++i) {
      const auto place = static_cast<int64_t>(i);
      draw_tile(page, section.tiles[i], kSheetMargin + place % kColumns * (kTileSide + kTileGap),
                y + place / kColumns * (kTileSide + kCaptionHeight));
    }
    y += tile_rows(section) * (kTileSide + kCaptionHeight) + kSectionGap;
  }
  return page;
}

}  // namespace hydramix
