// SPDX-License-Identifier: Apache-2.0
// Resizing and all operations against bytes that Pillow computed (tools/golden/pillow.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "hydramix/safetensors.h"
#include "images/affine.h"
#include "images/image_operations.h"
#include "images/rand_augment.h"
#include "images/resize.h"
#include "kernels/cpu/isa.h"

namespace hydramix {
namespace {

const safetensors::File& pillow_file() {
  static const auto file = safetensors::File::open(std::string(HYDRAMIX_SOURCE_DIR) +
                                                   "/tests/golden/images/pillow.safetensors");
  return file;
}

Image pillow_image(const std::string& name) {
  const auto& tensor = pillow_file().at(name);
  Image image(tensor.shape.at(0), tensor.shape.at(1));
  std::memcpy(image.rgb.data(), tensor.data.data(), image.rgb.size());
  return image;
}

Image resized_to(const Image& image, int64_t height, int64_t width, Interpolation interpolation) {
  Resizing resizing;
  resizing.source = {0, 0, static_cast<double>(image.height), static_cast<double>(image.width)};
  resizing.size = {height, width};
  resizing.window = {0, 0, height, width};
  resizing.interpolation = interpolation;
  return resize(image, resizing);
}

// Every tensor of the file but the input, by name.
std::map<std::string, std::function<Image(const Image&)>> pillow_cases() {
  std::map<std::string, std::function<Image(const Image&)>> cases;
  for (const auto kind : {Interpolation::kBilinear, Interpolation::kBicubic}) {
    const std::string name = kind == Interpolation::kBilinear ? "bilinear" : "bicubic";
    for (const auto& [height, width] : {std::pair(9, 11), std::pair(40, 33), std::pair(17, 8)})
      cases["resize_" + name + "_" + std::to_string(height) + "x" + std::to_string(width)] =
          [kind, height = height, width = width](const Image& image) {
            return resized_to(image, height, width, kind);
          };
    cases["crop_" + name] = [kind](const Image& image) {
      return resize(image, {{3, 2, 10, 13}, {12, 12}, {0, 0, 12, 12}, kind});
    };
    const OperationStyle style{kind, {124, 116, 104}};
    const auto geometric = [&](const std::string& which, ImageOperation operation,
                               double argument) {
      cases[which + "_" + name] = [=](const Image& image) {
        return apply_operation(image, operation, argument, style);
      };
    };
    geometric("rotate", ImageOperation::kRotate, 27);
    geometric("rotate_back", ImageOperation::kRotate, -13.5);
    geometric("shear_x", ImageOperation::kShearX, 0.27);
    geometric("shear_y", ImageOperation::kShearY, -0.11);
    geometric("translate_x", ImageOperation::kTranslateX, 0.32);
    geometric("translate_y", ImageOperation::kTranslateY, -0.3);
  }
  const auto plain = [&](const std::string& name, ImageOperation operation, double argument) {
    cases[name] = [=](const Image& image) {
      return apply_operation(image, operation, argument, {});
    };
  };
  plain("autocontrast", ImageOperation::kAutoContrast, 0);
  plain("equalize", ImageOperation::kEqualize, 0);
  plain("invert", ImageOperation::kInvert, 0);
  for (const int bits : {0, 1, 3})
    plain("posterize_" + std::to_string(bits), ImageOperation::kPosterize, bits);
  plain("solarize", ImageOperation::kSolarize, 26);
  plain("solarize_add", ImageOperation::kSolarizeAdd, 99);
  for (const auto& [text, factor] : {std::pair("0.19", 0.19), std::pair("1.81", 1.81)}) {
    plain(std::string("colour_") + text, ImageOperation::kColour, factor);
    plain(std::string("contrast_") + text, ImageOperation::kContrast, factor);
    plain(std::string("brightness_") + text, ImageOperation::kBrightness, factor);
    plain(std::string("sharpness_") + text, ImageOperation::kSharpness, factor);
  }
  return cases;
}

void expect_equals_pillow(const std::string& name, const Image& result) {
  const Image expected = pillow_image(name);
  ASSERT_EQ(result.height, expected.height) << name;
  ASSERT_EQ(result.width, expected.width) << name;
  for (std::size_t i = 0; i < expected.rgb.size(); ++i)
    ASSERT_EQ(int{result.rgb[i]}, int{expected.rgb[i]})
        << name << " at byte " << i << ", row " << i / 3 / static_cast<std::size_t>(result.width);
}

TEST(Pillow, EveryOperationGivesTheSameBytes) {
  const Image image = pillow_image("image");
  const auto cases = pillow_cases();
  for (const auto& tensor : pillow_file().tensors())
    EXPECT_TRUE(tensor.name == "image" || cases.count(tensor.name)) << tensor.name;
  for (const auto& [name, apply] : cases) expect_equals_pillow(name, apply(image));
}

TEST(Pillow, ResizingIsTheSameOnEveryInstructionSet) {
  const Image image = pillow_image("image");
  for (const auto& isa : kernels::instruction_sets()) {
    kernels::use_instruction_set(isa);
    for (const auto& [name, apply] : pillow_cases())
      if (name.starts_with("resize") || name.starts_with("crop"))
        expect_equals_pillow(name, apply(image));
  }
  kernels::use_instruction_set("");
}

// Pillow's step is the number of pixels, without those of the brightest value, over 255: here
// 800 / 255 = 3 of 1600. The values become (3 / 2) / 3 = 0 and (1 + 800) / 3, limited to 255.
TEST(Pillow, EqualizeLeavesTheBrightestValueOutOfItsStep) {
  Image image(40, 40);
  std::fill_n(image.rgb.begin(), 2400, uint8_t{10});
  std::fill_n(image.rgb.begin() + 2400, 2400, uint8_t{200});
  const Image out = equalize(image);
  EXPECT_EQ(std::count(out.rgb.begin(), out.rgb.end(), uint8_t{0}), 2400);
  EXPECT_EQ(std::count(out.rgb.begin(), out.rgb.end(), uint8_t{255}), 2400);
}

// Pillow leaves such an image as it is: there is nothing to stretch.
TEST(Pillow, AUniformImageHasNoContrastToChange) {
  Image grey(5, 4);
  std::fill(grey.rgb.begin(), grey.rgb.end(), uint8_t{77});
  EXPECT_EQ(autocontrast(grey).rgb, grey.rgb);
  EXPECT_EQ(equalize(grey).rgb, grey.rgb);
  EXPECT_EQ(adjust_contrast(grey, 1.9).rgb, grey.rgb);
  EXPECT_EQ(adjust_colour(grey, 1.9).rgb, grey.rgb);
  EXPECT_EQ(adjust_sharpness(grey, 0.1).rgb, grey.rgb);
}

}  // namespace
}  // namespace hydramix
