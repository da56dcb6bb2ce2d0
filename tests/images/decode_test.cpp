// SPDX-License-Identifier: Apache-2.0
// Decoding against libjpeg and libpng called directly, and against pictures whose pixels are known.
#include "images/decode.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>
#include <png.h>

#include "base/read_file.h"
#include "hydramix/error.h"
#include "images/jpeg.h"
#include "images/png.h"
#include "support/expect.h"

namespace hydramix {
namespace {

EncodedImage encoded(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

// Smooth, so that a JPEG keeps it nearly exactly.
Image gradient(int64_t height, int64_t width) {
  Image image(height, width);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      image.pixel(y, x)[0] = static_cast<uint8_t>(255 * y / height);
      image.pixel(y, x)[1] = static_cast<uint8_t>(255 * x / width);
      image.pixel(y, x)[2] = static_cast<uint8_t>(128 + 100 * y / height);
    }
  return image;
}

struct JpegKind {
  J_COLOR_SPACE pixels, stored;
  int channels;
  bool progressive = false, adobe = true;
};

// Every sample of a channel has the same value.
std::string flat_jpeg(const JpegKind& kind, const std::vector<uint8_t>& channels, unsigned side) {
  jpeg_compress_struct encoder = {};
  jpeg_error_mgr errors = {};
  encoder.err = jpeg_std_error(&errors);
  jpeg_create_compress(&encoder);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&encoder, &bytes, &size);
  encoder.image_height = encoder.image_width = side;
  encoder.input_components = kind.channels;
  encoder.in_color_space = kind.pixels;
  jpeg_set_defaults(&encoder);
  jpeg_set_colorspace(&encoder, kind.stored);
  if (kind.progressive) jpeg_simple_progression(&encoder);
  encoder.write_Adobe_marker = kind.adobe ? TRUE : FALSE;
  jpeg_set_quality(&encoder, 100, TRUE);
  jpeg_start_compress(&encoder, TRUE);
  std::vector<uint8_t> row;
  for (unsigned x = 0; x < side; ++x) row.insert(row.end(), channels.begin(), channels.end());
  JSAMPROW rows = row.data();
  while (encoder.next_scanline < side) jpeg_write_scanlines(&encoder, &rows, 1);
  jpeg_finish_compress(&encoder);
  std::string out(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&encoder);
  std::free(bytes);
  return out;
}

void expect_flat(const Image& image, std::array<int, 3> colour, int tolerance) {
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x)
      for (std::size_t c = 0; c < 3; ++c)
        ASSERT_NEAR(image.pixel(y, x)[c], colour[c], tolerance) << y << ", " << x << ", " << c;
}

TEST(DecodeJpeg, ReturnsThePixelsThatWereEncoded) {
  const Image image = gradient(45, 67);
  const std::string bytes = encode_jpeg(image, 95);
  EXPECT_EQ(encoded_size(encoded(bytes), "a.jpg"), (ImageSize{45, 67}));
  const Image decoded = decode_image(encoded(bytes), "a.jpg");
  ASSERT_EQ(decoded.height, 45);
  ASSERT_EQ(decoded.width, 67);
  double error = 0;
  for (std::size_t i = 0; i < image.rgb.size(); ++i)
    error += std::abs(image.rgb[i] - decoded.rgb[i]);
  EXPECT_LT(error / static_cast<double>(image.rgb.size()), 2);  // chroma is halved, steps are 1-5
}

TEST(DecodeJpeg, ConvertsGreyCmykAndYcck) {
  const auto decoded = [](const JpegKind& kind, const std::vector<uint8_t>& channels) {
    return decode_image(encoded(flat_jpeg(kind, channels, 20)), "a.jpg");
  };
  expect_flat(decoded({JCS_GRAYSCALE, JCS_GRAYSCALE, 1}, {90}), {90, 90, 90}, 1);
  expect_flat(decoded({JCS_RGB, JCS_YCbCr, 3, /*progressive=*/true}, {200, 30, 90}), {200, 30, 90},
              3);
  // Adobe stores 255 - ink: red = (255 - c)(255 - k) / 255 = 200 * 204 / 255.
  expect_flat(decoded({JCS_CMYK, JCS_CMYK, 4}, {200, 100, 50, 204}), {160, 80, 40}, 1);
  expect_flat(decoded({JCS_CMYK, JCS_YCCK, 4}, {200, 100, 50, 204}), {160, 80, 40}, 3);
  expect_flat(decoded({JCS_CMYK, JCS_CMYK, 4, false, /*adobe=*/false}, {55, 155, 205, 51}),
              {160, 80, 40}, 1);
}

TEST(DecodeJpeg, ReducesAsFarAsTheSizeAllows) {
  const std::string bytes = encode_jpeg(gradient(400, 500), 95);
  const auto part = [&](ImageBox box, ImageSize size) {
    return decode_part(encoded(bytes), "a.jpg", [&](const ImageSize& full) {
      EXPECT_EQ(full, (ImageSize{400, 500}));
      return WantedPart{box, size};
    });
  };
  struct Case {
    ImageBox box;
    ImageSize size;
    int reduction;
  };
  for (const Case& c :
       {Case{{0, 0, 400, 500}, {201, 201}, 1}, Case{{0, 0, 400, 500}, {200, 250}, 2},
        Case{{10, 20, 300, 400}, {75, 100}, 4}, Case{{10, 20, 300, 400}, {75, 101}, 2},
        Case{{40, 80, 320, 400}, {40, 50}, 8}, Case{{0, 0, 400, 500}, {5, 5}, 8}}) {
    const ImagePart p = part(c.box, c.size);
    SCOPED_TRACE(testing::Message() << "1/" << c.reduction);
    EXPECT_DOUBLE_EQ(p.box.height, c.box.height / c.reduction);
    EXPECT_DOUBLE_EQ(p.box.width, c.box.width / c.reduction);
    // A pixel of the box is the mean of its square in the full picture, a linear gradient.
    const auto y = static_cast<int64_t>(p.box.top + p.box.height / 2);
    const auto x = static_cast<int64_t>(p.box.left + p.box.width / 2);
    const double full_y = c.box.top + (static_cast<double>(y) + 0.5 - p.box.top) * c.reduction;
    const double full_x = c.box.left + (static_cast<double>(x) + 0.5 - p.box.left) * c.reduction;
    EXPECT_NEAR(p.image.pixel(y, x)[0], 255 * full_y / 400, 4);
    EXPECT_NEAR(p.image.pixel(y, x)[1], 255 * full_x / 500, 4);
  }
  EXPECT_THROW_WITH(part({0, 0, 401, 500}, {5, 5}), Error, "a.jpg: a part of 401 x 500");
}

// The pixels of a box with whole numbers.
Image pixels_of(const ImagePart& part) {
  const auto top = static_cast<int64_t>(part.box.top), left = static_cast<int64_t>(part.box.left);
  Image out(static_cast<int64_t>(part.box.height), static_cast<int64_t>(part.box.width));
  for (int64_t y = 0; y < out.height; ++y)
    for (int64_t x = 0; x < out.width; ++x)
      std::copy_n(part.image.pixel(top + y, left + x), 3, out.pixel(y, x));
  return out;
}

TEST(DecodeJpeg, DecodesTheSamePixelsOfAPart) {
  Image noisy = gradient(123, 211);
  for (std::size_t i = 0; i < noisy.rgb.size(); i += 5) noisy.rgb[i] ^= 0x55;
  const std::string bytes = encode_jpeg(noisy, 80);
  for (const int64_t reduction : {1, 2, 4, 8}) {
    const auto part_of = [&](const ImageBox& box) {
      const ImageSize size{static_cast<int64_t>(box.height) / reduction,
                           static_cast<int64_t>(box.width) / reduction};
      return decode_part(encoded(bytes), "a.jpg", [&](const ImageSize&) {
        return WantedPart{box, size};
      });
    };
    const Image full = part_of({0, 0, 123, 211}).image;
    for (const ImageBox& box :
         {ImageBox{0, 0, 120, 208}, ImageBox{8, 8, 112, 200}, ImageBox{16, 32, 16, 16},
          ImageBox{48, 96, 8, 8}, ImageBox{112, 200, 8, 8}, ImageBox{0, 200, 120, 8},
          ImageBox{96, 0, 24, 208}, ImageBox{32, 48, 64, 96}, ImageBox{104, 8, 16, 80}}) {
      const ImagePart part = part_of(box);
      ImageBox in_full = box;
      for (double* edge : {&in_full.top, &in_full.left, &in_full.height, &in_full.width})
        *edge /= static_cast<double>(reduction);
      ASSERT_EQ(part.box.height, in_full.height);
      EXPECT_EQ(pixels_of(part).rgb, pixels_of({full, in_full}).rgb)
          << "1/" << reduction << ": " << box.top << ", " << box.left << ", " << box.height << " x "
          << box.width;
    }
  }
}

TEST(DecodeJpeg, RefusesEveryTruncation) {
  for (const bool progressive : {false, true}) {
    const std::string bytes = progressive
                                  ? flat_jpeg({JCS_RGB, JCS_YCbCr, 3, true}, {200, 30, 90}, 40)
                                  : encode_jpeg(gradient(40, 40), 90);
    for (std::size_t size = 0; size + 2 < bytes.size(); size += 7)
      EXPECT_THROW_WITH(decode_image(encoded(bytes.substr(0, size)), "cut.jpg"), Error,
                        "cut.jpg: ");
    const std::string cut = bytes.substr(0, bytes.size() - 2);  // without the end marker
    EXPECT_THROW_WITH(decode_image(encoded(cut), "cut.jpg"), Error, "Premature end of JPEG file");
  }
}

TEST(DecodeJpeg, RefusesDamage) {
  std::string bytes = encode_jpeg(gradient(64, 64), 90);
  const std::string sound = bytes;
  bytes[bytes.size() - 20] = '\xFF';  // a marker amid the pixels
  bytes[bytes.size() - 19] = '\xD0';
  EXPECT_THROW_WITH(decode_image(encoded(bytes), "bad.jpg"), Error,
                    "bad.jpg: is not a complete JPEG");
  bytes = sound;  // sides of 65500 in the frame header, which follows the marker FF C0
  const auto frame = bytes.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  bytes.replace(frame + 5, 4, "\xFF\xDC\xFF\xDC");
  EXPECT_THROW_WITH(decode_image(encoded(bytes), "big.jpg"), Error, "at most 100000000 pixels");
}

struct PngKind {
  int colour, depth;
  bool interlaced = false;
};

std::string png_bytes(const PngKind& kind, unsigned height, unsigned width,
                      const std::string& row) {
  std::string out;
  png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(writer);
  png_set_write_fn(
      writer, &out,
      [](png_structp p, png_bytep data, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(data), size);
      },
      nullptr);
  png_set_IHDR(writer, info, width, height, kind.depth, kind.colour,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  const png_color palette[] = {{1, 2, 3}, {250, 100, 50}};
  if (kind.colour == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(writer, info, palette, 2);
  std::vector<png_bytep> rows(height, reinterpret_cast<png_bytep>(const_cast<char*>(row.data())));
  png_set_rows(writer, info, rows.data());
  png_write_png(writer, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&writer, &info);
  return out;
}

TEST(DecodePng, ConvertsEveryKindToRgb) {
  const auto decoded = [](const PngKind& kind, const std::string& row, unsigned width) {
    const std::string bytes = png_bytes(kind, 3, width, row);
    EXPECT_EQ(encoded_size(encoded(bytes), "a.png"), (ImageSize{3, width}));
    return decode_image(encoded(bytes), "a.png");
  };
  const auto pixel = [](const Image& image, int64_t x) {
    return std::vector<int>(image.pixel(1, x), image.pixel(1, x) + 3);
  };
  using Colour = std::vector<int>;
  EXPECT_EQ(pixel(decoded({PNG_COLOR_TYPE_RGB, 8}, "abcdef", 2), 1), (Colour{'d', 'e', 'f'}));
  EXPECT_EQ(pixel(decoded({PNG_COLOR_TYPE_RGB, 8, true}, "abcdef", 2), 1), (Colour{'d', 'e', 'f'}));
  EXPECT_EQ(pixel(decoded({PNG_COLOR_TYPE_GRAY, 8}, "xy", 2), 1), (Colour{'y', 'y', 'y'}));
  EXPECT_EQ(pixel(decoded({PNG_COLOR_TYPE_GRAY, 1}, "\x40", 2), 1), (Colour{255, 255, 255}));
  EXPECT_EQ(pixel(decoded({PNG_COLOR_TYPE_PALETTE, 1}, "\x40", 2), 1), (Colour{250, 100, 50}));
  // 16 bits without a gamma are sRGB: the high byte remains.
  EXPECT_EQ(pixel(decoded({PNG_COLOR_TYPE_RGB, 16}, "\x10\x10\x80\x80\xC0\xC0", 1), 0),
            (Colour{0x10, 0x80, 0xC0}));
  const Image clear =
      decoded({PNG_COLOR_TYPE_RGB_ALPHA, 8}, std::string("\1\2\3\0\4\5\6\xFF", 8), 2);
  EXPECT_EQ(pixel(clear, 0), (Colour{255, 255, 255}));  // transparent: white
  EXPECT_EQ(pixel(clear, 1), (Colour{4, 5, 6}));
}

TEST(DecodePng, ReturnsWhatEncodePngWrote) {
  const Image image = gradient(31, 17);
  const Image decoded = decode_image(encoded(encode_png(image)), "a.png");
  EXPECT_EQ(decoded.height, 31);
  EXPECT_EQ(decoded.width, 17);
  EXPECT_EQ(decoded.rgb, image.rgb);
}

TEST(DecodePng, RefusesDamage) {
  const std::string bytes = encode_png(gradient(40, 40));
  for (std::size_t size = 8; size + 12 < bytes.size(); size += 5)  // the last 12 bytes are IEND
    EXPECT_THROW_WITH(decode_image(encoded(bytes.substr(0, size)), "cut.png"), Error,
                      "cut.png: is not a complete PNG");
  std::string flipped = bytes;
  flipped[bytes.size() / 2] = static_cast<char>(flipped[bytes.size() / 2] ^ 1);
  EXPECT_THROW_WITH(decode_image(encoded(flipped), "bad.png"), Error,
                    "bad.png: is not a complete PNG");
  const std::string big =
      png_bytes({PNG_COLOR_TYPE_GRAY, 1}, 20000, 20000, std::string(2500, '\0'));
  EXPECT_THROW_WITH(decode_image(encoded(big), "big.png"), Error, "at most 100000000 pixels");
}

TEST(DecodePng, ReturnsTheWholePictureForAPart) {
  const Image image = gradient(31, 17);
  const ImageBox box{3, 5, 20, 11};
  const ImagePart part = decode_part(encoded(encode_png(image)), "a.png", [&](const ImageSize&) {
    return WantedPart{box, {2, 2}};
  });
  EXPECT_EQ(part.box, box);
  EXPECT_EQ(part.image.rgb, image.rgb);
}

// Small pictures of every kind. One of them lacks all scans but the first, which libjpeg accepts
// and by default smooths.
TEST(Decode, ReadsTheFuzzersCorpus) {
  const auto folder = std::filesystem::path(HYDRAMIX_SOURCE_DIR) / "fuzz/corpus/images";
  int64_t pictures = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("jpeg_") && !name.starts_with("png_")) continue;
    ++pictures;
    const std::string bytes = read_file(entry.path());
    const Image whole = decode_image(encoded(bytes), name);
    const ImageSize third{whole.height / 3, whole.width / 3};
    const auto rows = static_cast<double>(third.height), columns = static_cast<double>(third.width);
    const ImageBox box{rows, columns, rows, columns};
    const ImagePart part = decode_part(encoded(bytes), name, [&](const ImageSize&) {
      return WantedPart{box, third};
    });
    EXPECT_EQ(pixels_of(part).rgb, pixels_of({whole, box}).rgb) << name;
  }
  EXPECT_GE(pictures, 10);
}

TEST(Decode, RefusesOtherFormats) {
  EXPECT_THROW_WITH(decode_image({}, "a.jpg"), Error, "a.jpg: is empty");
  EXPECT_THROW_WITH(decode_image(encoded("GIF89a"), "a.gif"), Error,
                    "a.gif: is neither a JPEG nor a PNG");
}

}  // namespace
}  // namespace hydramix
