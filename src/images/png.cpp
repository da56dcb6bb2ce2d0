// SPDX-License-Identifier: Apache-2.0
// Uses libpng's simplified interface: it reports errors by return value, where the classic one
// jumps out of the library past C++ destructors. It converts palettes, grey, 16 bits and
// interlacing itself, and checks checksums.
#include "images/png.h"

#include <png.h>

#include "hydramix/error.h"

namespace hydramix {
namespace {

class PngReader {
 public:
  PngReader(EncodedImage bytes, const std::string& path) : path_(path) {
    image_.version = PNG_IMAGE_VERSION;
    const int begun = png_image_begin_read_from_memory(&image_, bytes.data(), bytes.size());
    check(begun != 0);
    const ImageSize full = size();
    const bool small = full.height <= kMaxImagePixels / full.width;
    if (!small) png_image_free(&image_);  // the destructor does not run if the constructor throws
    HYDRAMIX_CHECK(small, path_, ": a PNG of ", full.height, " x ", full.width, " pixels; at most ",
                   kMaxImagePixels, " pixels are read. Shrink the picture.");
  }
  ~PngReader() { png_image_free(&image_); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  ImageSize size() const { return {image_.height, image_.width}; }

  Image read() {
    // Without this, 16 bits without a gamma are taken for linear light and come out too bright.
    image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    image_.format = PNG_FORMAT_RGB;
    Image pixels(image_.height, image_.width);
    const png_color white = {255, 255, 255};
    check(png_image_finish_read(&image_, &white, pixels.rgb.data(), 0, nullptr) != 0);
    return pixels;
  }

 private:
  void check(bool good) const {
    HYDRAMIX_CHECK(good, path_, ": is not a complete PNG (", image_.message,
                   "). Fetch or convert the picture again.");
  }

  std::string path_;
  png_image image_ = {};
};

}  // namespace

ImageSize png_size(EncodedImage bytes, const std::string& path) {
  return PngReader(bytes, path).size();
}

Image decode_png(EncodedImage bytes, const std::string& path) {
  return PngReader(bytes, path).read();
}

std::string encode_png(const Image& image) {
  png_image description{};
  description.version = PNG_IMAGE_VERSION;
  description.width = static_cast<png_uint_32>(image.width);
  description.height = static_cast<png_uint_32>(image.height);
  description.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(description);
  std::string bytes(size, '\0');
  const int written =
      png_image_write_to_memory(&description, bytes.data(), &size, 0, image.rgb.data(), 0, nullptr);
  HYDRAMIX_CHECK(written != 0, "png: a picture of ", image.height, " x ", image.width,
                 " pixels cannot be encoded: ", description.message, ".");
  bytes.resize(size);
  return bytes;
}

}  // namespace hydramix
