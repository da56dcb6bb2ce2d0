// SPDX-License-Identifier: Apache-2.0
#include "cli/contact_sheet.h"

#include <algorithm>

#include "hydramix/error.h"
#include "images/resize.h"
#include "view/page_parts.h"

namespace hydramix {
namespace {

using page_parts::add_text;

constexpr int64_t kColumns = 8, kTileSide = 160, kTileGap = 14, kSheetMargin = 36;
constexpr int64_t kCaptionHeight = 40, kSectionGap = 22, kSectionHeight = 32, kHeaderHeight = 62;
constexpr TextStyle kSheetTitle{24, true}, kSectionTitle{15, true}, kTileName{12, true},
    kSmallText{11, false};

// Of the size of a tile, or of an image that fits into it evenly, whose pixels stay squares.
Canvas tile_pixels(const Image& image) {
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
  return pixels;
}

int64_t tile_rows(const SheetSection& section) {
  return (static_cast<int64_t>(section.tiles.size()) + kColumns - 1) / kColumns;
}

void add_tile(Page& page, const SheetTile& tile, int64_t x, int64_t y) {
  const Rect area{x, y, kTileSide, kTileSide};
  page_parts::add_image(page, area, tile_pixels(tile.image));
  page.images.back().photo = true;
  const int64_t below = y + kTileSide + 6;
  add_text(page, x, below, shorten(printable(tile.name), kTileSide, kTileName), kTileName, kInk);
  add_text(page, x, below + 15, shorten(printable(tile.note), kTileSide, kSmallText), kSmallText,
           kMuted);
}

}  // namespace

Page layout_sheet(const ContactSheet& sheet) {
  constexpr int64_t kTextWidth = kColumns * (kTileSide + kTileGap) - kTileGap;
  Page page;
  page.width = kTextWidth + 2 * kSheetMargin;
  page.title = sheet.title;
  int64_t y = kSheetMargin;
  add_text(page, kSheetMargin, y, shorten(printable(sheet.title), kTextWidth, kSheetTitle),
           kSheetTitle, kInk);
  add_text(page, kSheetMargin, y + 33, shorten(printable(sheet.note), kTextWidth, kSmallText),
           kSmallText, kMuted);
  y += kHeaderHeight;
  for (const auto& section : sheet.sections) {
    page.boxes.push_back({{kSheetMargin, y, kTextWidth, 1}, kFrame});
    const int64_t used = text_width(section.title.size() + 2, kSectionTitle);
    add_text(page, kSheetMargin, y + 11, section.title, kSectionTitle, kInk);
    add_text(page, kSheetMargin + used, y + 14,
             shorten(printable(section.note), kTextWidth - used, kSmallText), kSmallText, kMuted);
    y += kSectionHeight;
    for (std::size_t i = 0; i < section.tiles.size(); ++i) {
      const auto place = static_cast<int64_t>(i);
      add_tile(page, section.tiles[i], kSheetMargin + place % kColumns * (kTileSide + kTileGap),
               y + place / kColumns * (kTileSide + kCaptionHeight));
    }
    y += tile_rows(section) * (kTileSide + kCaptionHeight) + kSectionGap;
  }
  HYDRAMIX_CHECK(!page.images.empty(), "contact sheet: there is no picture to show.");
  page.height = y - kSectionGap + kSheetMargin;
  return page;
}

}  // namespace hydramix
