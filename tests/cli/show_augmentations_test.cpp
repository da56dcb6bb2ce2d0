// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "base/read_file.h"
#include "cli/augmentation_sheet.h"
#include "hydramix/error.h"
#include "images/drawn_images.h"
#include "support/expect.h"
#include "support/in_process.h"
#include "view/svg.h"

namespace hydramix {
namespace {

using test::run_here;

AugmentOptions sheet_options() {
  AugmentOptions options;
  options.size = 32;
  return options;
}

ContactSheet small_sheet(const AugmentOptions& options) {
  DrawnOptions drawn;
  drawn.side = 40;
  return augmentation_sheet(*drawn_images(drawn, ImageSplit::kTrain), options, 3);
}

std::vector<std::string> titles(const ContactSheet& sheet) {
  std::vector<std::string> list;
  for (const auto& section : sheet.sections) list.push_back(section.title);
  return list;
}

TEST(AugmentationSheet, ShowsEveryAugmentation) {
  const auto sheet = small_sheet(sheet_options());
  EXPECT_EQ(titles(sheet), (std::vector<std::string>{"RandAugment", "Crop and flip", "Training",
                                                     "Mixup and CutMix", "Random erasing"}));
  const auto& operations = sheet.sections[0].tiles;
  ASSERT_EQ(operations.size(), 16u);
  EXPECT_EQ(operations[0].name, "original");
  for (const auto& tile : operations) {
    EXPECT_EQ(tile.image.height, 32);
    EXPECT_EQ(&tile == &operations[0], tile.image.rgb == operations[0].image.rgb) << tile.name;
    if (tile.name != "invert") continue;
    for (std::size_t i = 0; i < tile.image.rgb.size(); ++i)
      ASSERT_EQ(tile.image.rgb[i] + operations[0].image.rgb[i], 255);
  }
}

TEST(AugmentationSheet, LeavesOutAugmentationsThatAreOff) {
  AugmentOptions options = sheet_options();
  options.rand_augment.layers = 0;
  options.mixup = options.cutmix = options.erasing = 0;
  EXPECT_EQ(titles(small_sheet(options)), (std::vector<std::string>{"Crop and flip", "Training"}));
}

// A tile of 32 pixels is magnified five times; an image whose size does not fit is resized.
TEST(AugmentationSheet, LaysTheTilesOut) {
  ContactSheet sheet;
  Image image(32, 32), other(30, 50);
  std::fill(image.rgb.begin(), image.rgb.end(), uint8_t{200});
  std::fill_n(image.pixel(31, 31), 3, uint8_t{10});
  sheet.sections.push_back({"Title", "note", {{image, "name", "note"}, {other, "other", ""}}});
  const Page page = layout_sheet(sheet);
  ASSERT_EQ(page.images.size(), 2u);
  for (const auto& tile : page.images) {
    EXPECT_TRUE(tile.photo);
    EXPECT_EQ(tile.area.width, 160);
    EXPECT_EQ(tile.area.height, 160);
    EXPECT_LE(tile.area.y + tile.area.height, page.height);
  }
  const Canvas& first = page.images[0].image;
  EXPECT_EQ(first.width(), 32);
  EXPECT_EQ(first.at(0, 0), (Rgb{200, 200, 200}));
  EXPECT_EQ(first.at(31, 31), (Rgb{10, 10, 10}));
  EXPECT_EQ(page.images[1].image.width(), 160);
  std::string words;
  for (const auto& text : page.texts) words += text.text + "|";
  EXPECT_NE(words.find("Title|note|name|note|other|"), std::string::npos) << words;
  EXPECT_THROW_WITH(layout_sheet({}), Error, "no picture to show");
}

// A dark background inverts matrices, but not photos.
TEST(AugmentationSheet, KeepsTheColoursOfPhotosInTheDark) {
  const auto page = svg_page(layout_sheet(small_sheet(sheet_options())));
  EXPECT_NE(page.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_NE(page.find("<image class=\"photo\""), std::string::npos);
  EXPECT_EQ(page.find("invert("), std::string::npos);
}

TEST(ShowAugmentations, WritesThePictureThatTheSeedDetermines) {
  const test::TemporaryFolder folder;
  const auto shown = [&](const std::string& name, const std::string& arguments) {
    const auto path = (folder / name).string();
    const auto result =
        run_here("show-augmentations --out " + path + " --augment.size 32 " + arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.out.find("wrote " + path), std::string::npos);
    return read_file(path);
  };
  const auto first = shown("a.svg", "--seed 1");
  EXPECT_NE(first.find("<svg "), std::string::npos);
  EXPECT_EQ(first, shown("b.svg", "--seed 1"));
  EXPECT_NE(first, shown("c.svg", "--seed 2"));
}

TEST(ShowAugmentations, RefusesWrongRequests) {
  const auto refused = [](const std::string& arguments, int code, const std::string& text) {
    const auto result = run_here("show-augmentations " + arguments);
    EXPECT_EQ(result.code, code) << arguments;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
  };
  refused("--out sheet.png", 2, "ends in .svg");
  refused("--augment.crop padded --augment.scale 0.5,1", 2, "belong to crop: resized");
  refused("--augment.mixup -1", 2, "mixup");
  refused("--out /no/such/folder/sheet.svg", 1, "/no/such/folder");
  const test::TemporaryFolder folder;
  refused("--data " + folder.path().string() + " --out " + (folder / "a.svg").string(), 1,
          folder.path().string());
}

}  // namespace
}  // namespace hydramix
