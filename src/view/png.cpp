// SPDX-License-Identifier: Apache-2.0
// Uses libpng's simplified interface: it reports errors by return value, where the classic one
// jumps out of the library past C++ destructors.
#include "view/png.h"

#include <png.h>

#include <cstdint>
#include <string_view>

#include "base/atomic_file.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t given = bytes.size() - i < 3 ? bytes.size() - i : 3;
    uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k)
      word = word << 8 | (k < given ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k)
      out.push_back(k <= given ? kDigits[word >> (18 - 6 * k) & 63u] : '=');
  }
  return out;
}

}  // namespace

std::string encode_png(const Canvas& canvas) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(canvas.width());
  image.height = static_cast<png_uint_32>(canvas.height());
  image.format = PNG_FORMAT_RGB;

  // The worst case is little more than the raw size; measuring by encoding would cost twice.
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  const int written =
      png_image_write_to_memory(&image, bytes.data(), &size, 0, canvas.bytes().data(), 0, nullptr);
  HYDRAMIX_CHECK(written != 0, "png: an image of ", canvas.width(), " x ", canvas.height(),
                 " pixels cannot be encoded: ", image.message, ". Draw a smaller page.");
  bytes.resize(size);
  return bytes;
}

std::string png_data_uri(const Canvas& canvas) {
  return "data:image/png;base64," + base64(encode_png(canvas));
}

void write_png(const std::filesystem::path& path, const std::vector<MatrixPicture>& pictures,
               const PageOptions& options) {
  const Page page = layout_pixels(pictures, options);
  Canvas canvas(page.width, page.height, page.background);
  for (const PageImage& image : page.images) canvas.draw(image.image, image.area);
  write_file(path, encode_png(canvas));
}

}  // namespace hydramix
