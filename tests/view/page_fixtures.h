// SPDX-License-Identifier: Apache-2.0
// Matrices to draw, and a PNG reader to check the result.
#pragma once

#include <gtest/gtest.h>
#include <png.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "view/canvas.h"
#include "view/matrix_plot.h"

namespace hydramix::test {

// Entries of both signs and of many sizes, no two neighbours alike.
inline MatrixPicture wave_picture(int64_t rows, int64_t cols, const std::string& title = "wave") {
  MatrixPicture picture{title, "cos(i + 2 j) 2^{-|i - j| / 8}", rows, cols, {}};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      picture.values.push_back(std::cos(static_cast<double>(i + 2 * j)) *
                               std::exp2(-std::abs(static_cast<double>(i - j)) / 8));
  return picture;
}

inline std::vector<MatrixPicture> gallery_pictures(int64_t count, int64_t side) {
  std::vector<MatrixPicture> out;
  for (int64_t k = 0; k < count; ++k) {
    out.push_back(wave_picture(side + k % 3, side, "quasiseparable_" + std::to_string(k)));
    if (k % 2 == 0) out.back().subtitle = "c_i A_{i:j} b_j off the diagonal, delta_i on it";
    if (k % 5 == 0) out.back().subtitle += ", and a great many more words than two lines can hold";
  }
  return out;
}

// With tokens along both axes, of all lengths, a few beyond ASCII.
inline MatrixPicture labelled_picture(int64_t rows, int64_t cols) {
  MatrixPicture picture = wave_picture(rows, cols, "labelled");
  const std::vector<std::string> tokens{"[CLS]",
                                        "the",
                                        "##s",
                                        "<&>",
                                        "counterrevolutionary",
                                        "na\xc3\xafve",
                                        ".",
                                        "\xe6\xb0\xb4\xe6\xb1\xa7"};
  for (int64_t i = 0; i < rows; ++i)
    picture.row_labels.push_back(tokens[static_cast<std::size_t>(i) % tokens.size()]);
  for (int64_t j = 0; j < cols; ++j)
    picture.col_labels.push_back(tokens[static_cast<std::size_t>(j) % tokens.size()]);
  return picture;
}

inline std::string decode_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  EXPECT_EQ(text.size() % 4, 0u);
  std::string out;
  unsigned held = 0, bits = 0;
  for (const char c : text.substr(0, text.find('='))) {
    const std::size_t digit = digits.find(c);
    EXPECT_NE(digit, std::string::npos) << c;
    held = (held << 6 | static_cast<unsigned>(digit)) & 0xFFFFu;
    bits += 6;
    if (bits >= 8) out += static_cast<char>(held >> (bits -= 8) & 0xFFu);
  }
  return out;
}

inline Canvas read_png(const std::filesystem::path& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_file(&image, path.c_str()))
    throw std::runtime_error(path.string() + ": " + image.message);
  EXPECT_EQ(image.format, static_cast<png_uint_32>(PNG_FORMAT_RGB)) << "not plain eight-bit RGB";
  image.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> bytes(PNG_IMAGE_SIZE(image));
  if (!png_image_finish_read(&image, nullptr, bytes.data(), 0, nullptr))
    throw std::runtime_error(path.string() + ": " + image.message);
  Canvas canvas(image.width, image.height, {});
  for (int64_t y = 0; y < canvas.height(); ++y)
    for (int64_t x = 0; x < canvas.width(); ++x) {
      const auto at = static_cast<std::size_t>(3 * (y * canvas.width() + x));
      canvas.set(x, y, {bytes[at], bytes[at + 1], bytes[at + 2]});
    }
  return canvas;
}

}  // namespace hydramix::test
