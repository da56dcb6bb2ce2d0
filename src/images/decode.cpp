// SPDX-License-Identifier: Apache-2.0
#include "images/decode.h"

#include <algorithm>
#include <array>

#include "hydramix/error.h"
#include "images/jpeg.h"
#include "images/png.h"

namespace hydramix {
namespace {

enum class ImageFormat { kJpeg, kPng };

ImageFormat format_of(EncodedImage bytes, const std::string& path) {
  constexpr std::array<uint8_t, 3> kJpegStart = {0xFF, 0xD8, 0xFF};
  constexpr std::array<uint8_t, 8> kPngStart = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  const auto starts_with = [&](const auto& start) {
    return bytes.size() >= start.size() && std::equal(start.begin(), start.end(), bytes.begin());
  };
  HYDRAMIX_CHECK(!bytes.empty(), path, ": is empty, expected a JPEG or a PNG.");
  if (starts_with(kJpegStart)) return ImageFormat::kJpeg;
  HYDRAMIX_CHECK(starts_with(kPngStart), path,
                 ": is neither a JPEG nor a PNG, by its first bytes. Convert the picture to one of "
                 "them.");
  return ImageFormat::kPng;
}

void check_box(const WantedPart& wanted, const ImageSize& full, const std::string& path) {
  const ImageBox& box = wanted.box;
  HYDRAMIX_CHECK(box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0 &&
                     box.top + box.height <= static_cast<double>(full.height) &&
                     box.left + box.width <= static_cast<double>(full.width) &&
                     wanted.size.height > 0 && wanted.size.width > 0,
                 path, ": a part of ", box.height, " x ", box.width, " pixels at (", box.top, ", ",
                 box.left, ") is not inside the picture of ", full.height, " x ", full.width, ".");
}

}  // namespace

int reduction_of(const WantedPart& wanted) {
  int reduction = 8;
  while (reduction > 1 &&
         (wanted.box.height < reduction * static_cast<double>(wanted.size.height) ||
          wanted.box.width < reduction * static_cast<double>(wanted.size.width)))
    reduction /= 2;
  return reduction;
}

ImageSize encoded_size(EncodedImage bytes, const std::string& path) {
  return format_of(bytes, path) == ImageFormat::kJpeg ? jpeg_size(bytes, path)
                                                      : png_size(bytes, path);
}

Image decode_image(EncodedImage bytes, const std::string& path) {
  const auto whole = [](const ImageSize& full) {
    return WantedPart{{0, 0, static_cast<double>(full.height), static_cast<double>(full.width)},
                      full};
  };
  return decode_part(bytes, path, whole).image;
}

ImagePart decode_part(EncodedImage bytes, const std::string& path, const ChoosePart& choose) {
  const auto checked = [&](const ImageSize& full) {
    const WantedPart wanted = choose(full);
    check_box(wanted, full, path);
    return wanted;
  };
  if (format_of(bytes, path) == ImageFormat::kJpeg) return decode_jpeg(bytes, path, checked);
  Image image = decode_png(bytes, path);
  const ImageBox box = checked({image.height, image.width}).box;
  return {std::move(image), box};
}

}  // namespace hydramix
