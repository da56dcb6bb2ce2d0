// SPDX-License-Identifier: Apache-2.0
// The layout of pages, and PNG files: every entry has its colour where the layout puts it, texts do
// not overlap, and senseless requests are refused with a reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "hydramix/error.h"
#include "support/expect.h"
#include "view/page_fixtures.h"
#include "view/png.h"

namespace hydramix {
namespace {

using namespace test;

bool shows(const Page& page, const std::string& text) {
  return std::any_of(page.texts.begin(), page.texts.end(),
                     [&](const PageText& t) { return t.text == text; });
}

bool apart(const Rect& a, const Rect& b) {
  return a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y ||
         b.y + b.height <= a.y;
}

// The centre of every entry of every picture has the colour of its value.
void expect_entries(const Canvas& canvas, const std::vector<MatrixPicture>& pictures,
                    const Page& page) {
  ASSERT_EQ(page.images.size(), pictures.size());
  for (std::size_t k = 0; k < pictures.size(); ++k) {
    const MatrixPicture& picture = pictures[k];
    const Rect& area = page.images[k].area;
    const double maximum = largest_magnitude(picture);
    const int64_t dx = area.width / picture.cols, dy = area.height / picture.rows;
    for (int64_t i = 0; i < picture.rows; ++i)
      for (int64_t j = 0; j < picture.cols; ++j) {
        const double value = picture.values[static_cast<std::size_t>(i * picture.cols + j)];
        ASSERT_EQ(canvas.at(area.x + j * dx + dx / 2, area.y + i * dy + dy / 2),
                  diverging_colour(value / maximum))
            << picture.title << " (" << i << ", " << j << ")";
      }
  }
}

TEST(MatrixPng, EveryEntryHasTheColourOfItsValue) {
  TemporaryFolder folder;
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 1},
                                   {7, 7},
                                   {64, 64},
                                   {3, 50},
                                   {50, 3},
                                   {1, 700},
                                   {513, 513}}) {
    const std::vector<MatrixPicture> pictures{wave_picture(rows, cols)};
    write_png(folder / "m.png", pictures);
    expect_entries(read_png(folder / "m.png"), pictures, layout_pixels(pictures, {}));
  }
}

TEST(MatrixPng, EveryEntryOfAGalleryHasTheColourOnItsOwnScale) {
  TemporaryFolder folder;
  auto pictures = gallery_pictures(11, 20);
  for (double& value : pictures[3].values) value *= 1e-9;
  const PageOptions options{"All of them", 0, 0};
  write_png(folder / "m.png", pictures, options);
  expect_entries(read_png(folder / "m.png"), pictures, layout_pixels(pictures, options));
}

TEST(MatrixPng, HoldsPixelsOnly) {
  TemporaryFolder folder;
  write_png(folder / "m.png", {wave_picture(64, 64)});
  const Canvas one = read_png(folder / "m.png");
  EXPECT_EQ(one.width(), 512);
  EXPECT_EQ(one.height(), 512);
  const Page grid = layout_pixels(gallery_pictures(11, 20), {});
  EXPECT_TRUE(grid.texts.empty() && grid.boxes.empty());
  for (std::size_t a = 0; a < grid.images.size(); ++a) {
    const Rect& area = grid.images[a].area;
    EXPECT_LE(area.x + area.width, grid.width);
    EXPECT_LE(area.y + area.height, grid.height);
    for (std::size_t b = 0; b < a; ++b) EXPECT_TRUE(apart(area, grid.images[b].area));
  }
}

TEST(MatrixPng, TheFileAppearsWithoutLeavingATemporaryOne) {
  TemporaryFolder folder;
  write_png(folder / "m.png", {wave_picture(4, 4)});
  write_png(folder / "m.png", {wave_picture(5, 5)});
  const auto files = std::distance(std::filesystem::directory_iterator(folder.path()),
                                   std::filesystem::directory_iterator());
  EXPECT_EQ(files, 1);
}

TEST(MatrixPage, NotFiniteEntriesAreGreyAndCounted) {
  MatrixPicture picture = wave_picture(8, 8);
  picture.values[9] = std::numeric_limits<double>::quiet_NaN();
  picture.values[10] = -std::numeric_limits<double>::infinity();
  const Page page = layout_page({picture}, {});
  EXPECT_EQ(page.images[1].image.at(1, 1), kNotFiniteColour);
  EXPECT_EQ(page.images[1].image.at(2, 1), kNotFiniteColour);
  EXPECT_EQ(page.images[1].image.at(0, 0), diverging_colour(1)) << "the scale must ignore them";
  EXPECT_TRUE(shows(page, "8 x 8, 2 not finite"));
}

TEST(MatrixPage, ZeroMatrixIsNeutralAndItsScaleSaysZero) {
  const Page page = layout_page({{"zero", "", 3, 3, std::vector<double>(9)}}, {});
  for (const PageImage& image : page.images)
    for (int64_t y = 0; y < image.image.height(); ++y)
      EXPECT_EQ(image.image.at(0, y), diverging_colour(0));
  EXPECT_TRUE(shows(page, "0"));
  EXPECT_FALSE(shows(page, "-0"));
}

TEST(MatrixPage, TheBarRunsFromMinusTheMaximumUpToTheMaximum) {
  const Page page = layout_page({{"", "", 1, 2, {-1234.56, 0.5}}}, {});
  const Canvas& bar = page.images[0].image;
  EXPECT_EQ(bar.at(0, 0), diverging_colour(1));
  EXPECT_EQ(bar.at(0, bar.height() - 1), diverging_colour(-1));
  EXPECT_TRUE(shows(page, "+1.23e+03"));
  EXPECT_TRUE(shows(page, "0"));
  EXPECT_TRUE(shows(page, "-1.23e+03"));
}

TEST(MatrixPage, PicturesComeOutAtAGoodSizeWhateverTheMatrix) {
  for (const int64_t side : {1, 2, 3, 17, 64, 300, 512, 700, 1500, 1501, 2000}) {
    const Page page = layout_page({wave_picture(side, side)}, {});
    EXPECT_GE(page.images[1].area.width, 384) << side;
    EXPECT_LE(page.images[1].area.width, 1500) << side;
  }
  const Page strip = layout_page({wave_picture(1, 1000)}, {});
  EXPECT_EQ(strip.images[1].area.width, 1000);
  EXPECT_GE(strip.images[1].area.height, 20) << "one pixel would not be seen";
}

TEST(MatrixPage, LargeMatricesAreAveragedAndSaySo) {
  MatrixPicture picture{"large", "", 2001, 2001, std::vector<double>(2001 * 2001, 0.0)};
  picture.values[0] = 1;
  picture.values[2001 * 2001 - 1] = std::numeric_limits<double>::infinity();
  const Page page = layout_page({picture}, {});
  const Canvas& image = page.images[1].image;
  EXPECT_EQ(image.width(), 1001);
  EXPECT_EQ(image.at(0, 0), diverging_colour(0.25));
  EXPECT_EQ(image.at(1, 1), diverging_colour(0));
  EXPECT_EQ(image.at(1000, 1000), kNotFiniteColour) << "an average must not hide it";
  EXPECT_TRUE(shows(page, "2001 x 2001, means of 2 x 2, 1 not finite"));
}

TEST(MatrixPage, HugeAndTinyValuesKeepTheirColours) {
  for (const double scale : {1e308, 5e-324, 1e-300}) {
    const Page page = layout_page({{"", "", 1, 3, {scale, -scale, 0}}}, {});
    EXPECT_EQ(page.images[1].image.at(0, 0), diverging_colour(1)) << scale;
    EXPECT_EQ(page.images[1].image.at(1, 0), diverging_colour(-1)) << scale;
    EXPECT_EQ(page.images[1].image.at(2, 0), diverging_colour(0)) << scale;
  }
}

TEST(MatrixPage, TextsKeepClearOfEachOtherOfThePicturesAndOfTheEdge) {
  const std::string long_title(200, 'W');
  std::vector<std::pair<std::vector<MatrixPicture>, PageOptions>> pages;
  for (const int64_t count : {1, 2, 3, 7, 24})
    for (const int64_t side : {1, 31, 100})
      for (const int64_t cell : {0, 1, 3})
        for (const std::string& title : {std::string(), std::string("Mixers"), long_title})
          pages.push_back({gallery_pictures(count, side), {title, count == 7 ? 1 : 0, cell}});
  pages.push_back({gallery_pictures(3, 401), {}});  // averaged, so with a longer note
  pages.push_back({{wave_picture(2, 900, long_title), wave_picture(900, 2)}, {}});
  for (const int64_t cell : {0, 3, 13})
    for (const auto& [rows, cols] :
         {std::pair<int64_t, int64_t>{1, 1}, {9, 9}, {2, 40}, {150, 7}}) {
      pages.push_back({{labelled_picture(rows, cols)}, {"", 0, cell}});
      pages.push_back({{labelled_picture(rows, cols), wave_picture(9, 9), labelled_picture(9, 9)},
                       {"Words", 2, cell}});
    }
  for (const auto& [pictures, options] : pages) {
    SCOPED_TRACE(concat(pictures.size(), " pictures of ", pictures[0].cols, ", ",
                        options.cell_pixels, " pixels, title '", options.title, "'"));
    const Page page = layout_page(pictures, options);
    for (std::size_t a = 0; a < page.texts.size(); ++a) {
      const Rect box = page.texts[a].area();
      EXPECT_TRUE(box.x >= 10 && box.y >= 10 && box.x + box.width <= page.width - 10 &&
                  box.y + box.height <= page.height - 10)
          << page.texts[a].text;
      for (const PageImage& image : page.images)
        EXPECT_TRUE(apart(box, image.area)) << page.texts[a].text;
      for (std::size_t b = 0; b < a; ++b)
        EXPECT_TRUE(apart(box, page.texts[b].area()))
            << page.texts[a].text << " and " << page.texts[b].text;
    }
  }
}

TEST(MatrixPage, GalleryFitsAReadmeAndNamesEveryScale) {
  for (const int64_t side : {16, 32, 64}) {
    const Page page = layout_page(gallery_pictures(24, side), {"Mixers", 0, 0});
    EXPECT_GE(page.width, 1000) << side;
    EXPECT_LE(page.width, 1200) << side;
    EXPECT_TRUE(shows(page, "Mixers"));
    EXPECT_TRUE(shows(page, "-scale"));
    EXPECT_TRUE(shows(page, "+scale"));
    const auto scales = std::count_if(page.texts.begin(), page.texts.end(), [](const PageText& t) {
      return t.text.rfind("scale 1, ", 0) == 0;
    });
    EXPECT_EQ(scales, 24);
  }
}

TEST(MatrixPage, EntriesBeyondAGivenScaleGetItsEndColoursAndAreMentioned) {
  MatrixPicture picture{"m", "", 1, 3, {-10, 0.5, 10}, /*scale=*/1};
  const Canvas image = matrix_image(picture, colour_scale(picture), 1);
  EXPECT_EQ(image.at(0, 0), diverging_colour(-1));
  EXPECT_EQ(image.at(1, 0), diverging_colour(0.5));
  EXPECT_EQ(image.at(2, 0), diverging_colour(1));
  const Page page = layout_page({picture, picture}, {});
  EXPECT_TRUE(shows(page, "scale 1, largest 10, 1 x 3"));
}

TEST(MatrixPage, ColumnsAndPixelsCanBeChosen) {
  const Page page = layout_page(gallery_pictures(6, 90), {"", 2, 3});
  EXPECT_EQ(page.images[1].area.width, 270);
  EXPECT_EQ(page.images[1].area.y, page.images[2].area.y);
  EXPECT_LT(page.images[2].area.y, page.images[3].area.y);
  EXPECT_EQ(page.images[1].area.x, page.images[3].area.x);
}

// Labels of rows end at the left of the image, those of columns above it, each at its entry.
TEST(MatrixPage, LabelsStandAtTheirRowsAndColumns) {
  for (const int64_t cell : {0, 13, 3}) {
    const MatrixPicture picture = labelled_picture(8, 8);
    const Page page = layout_page({picture}, {"", 0, cell});
    const Rect image = page.images[1].area;
    const int64_t pitch = image.width / 8;
    EXPECT_EQ(image.height, image.width);
    int64_t rows = 0, cols = 0;
    for (const PageText& text : page.texts) {
      const auto found = std::find(picture.row_labels.begin(), picture.row_labels.end(), text.text);
      if (found == picture.row_labels.end()) continue;
      const int64_t middle = (found - picture.row_labels.begin()) * pitch + pitch / 2;
      const Rect area = text.area();
      if (text.upwards) {
        ++cols;
        EXPECT_LT(area.y + area.height, image.y) << text.text;
        EXPECT_NEAR(area.x + area.width / 2, image.x + middle, 6) << text.text;
      } else {
        ++rows;
        EXPECT_LT(area.x + area.width, image.x) << text.text;
        EXPECT_NEAR(area.y + area.height / 2, image.y + middle, 6) << text.text;
      }
    }
    // One of the eight labels is too long to be shown in full. Entries of three pixels leave room
    // for every fourth label: the first, and the long one.
    EXPECT_EQ(rows, cell == 3 ? 1 : 7);
    EXPECT_EQ(cols, rows);
    EXPECT_TRUE(shows(page, "counterrevo..."));
  }
}

TEST(MatrixPage, LabelsForSomeRowsOnlyAreRefused) {
  MatrixPicture picture = labelled_picture(4, 5);
  picture.col_labels.pop_back();
  EXPECT_THROW_WITH(layout_page({picture}, {}), Error,
                    "'labelled': 4 labels for 5 rows or columns");
}

TEST(MatrixPage, ThePageTitleTakesTheHeadingOfASinglePicture) {
  const Page page = layout_page({wave_picture(4, 4, "toeplitz")}, {"Mixers", 0, 0});
  EXPECT_EQ(page.title, "Mixers");
  EXPECT_TRUE(shows(page, "Mixers"));
  EXPECT_TRUE(shows(page, "toeplitz"));
}

TEST(MatrixPage, WhatCannotBeDrawnIsRefused) {
  MatrixPicture picture = wave_picture(3, 4, "toeplitz");
  picture.values.pop_back();
  EXPECT_THROW_WITH(layout_page({picture}, {}), Error,
                    "'toeplitz': 3 x 4 entries do not match the 11 values given");
  const int64_t half = int64_t{1} << 32;  // half * half wraps around to 0
  EXPECT_THROW_WITH(layout_page({{"wide", "", half, half, {}}}, {}), Error, "the 0 values given");
  EXPECT_THROW_WITH(layout_page({{"none", "", 0, 5, {}}}, {}), Error, "'none': needs at least one");
  EXPECT_THROW_WITH(layout_page({}, {}), Error, "no pictures given");
  EXPECT_THROW_WITH(layout_page({wave_picture(2, 2)}, {"", -1, 0}), UsageError, "-1 columns");
  EXPECT_THROW_WITH(layout_page({wave_picture(2, 2)}, {"", 0, -3}), UsageError, "-3 pixels");
  EXPECT_THROW_WITH(layout_page({wave_picture(2, 2)}, {"", 0, 20001}), UsageError, "1 to 20000");
}

TEST(MatrixPage, PagesBeyondTheLimitAreRefusedWithTheirSize) {
  EXPECT_THROW_WITH(layout_page({wave_picture(201, 2)}, {"", 0, 100}), Error, "x 20");
  EXPECT_THROW_WITH(layout_page({wave_picture(2, 201)}, {"", 0, 100}), Error,
                    "at most 20000 a side");
  EXPECT_THROW_WITH(layout_page(gallery_pictures(200, 4), {"", 200, 0}), Error,
                    "at most 20000 a side");
  EXPECT_THROW_WITH(layout_page(gallery_pictures(200, 4), {"", 1, 0}), Error,
                    "at most 20000 a side");
}

TEST(MatrixPng, AnUnwritablePathIsNamed) {
  TemporaryFolder folder;
  EXPECT_THROW_WITH(write_png(folder / "missing/m.png", {wave_picture(2, 2)}), Error,
                    "missing/m.png: cannot be created");
  EXPECT_THROW_WITH(write_png(folder.path(), {wave_picture(2, 2)}), Error, "is a directory");
}

TEST(Canvas, RefusesWhatItCannotHold) {
  EXPECT_THROW_WITH(Canvas(0, 5, {}), Error, "got 0 x 5");
  Canvas canvas(10, 10, {});
  EXPECT_THROW_WITH(canvas.draw(Canvas(3, 3, {}), {0, 0, 10, 9}), Error, "10 x 9");
}

}  // namespace
}  // namespace hydramix
