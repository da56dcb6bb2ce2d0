// SPDX-License-Identifier: Apache-2.0
// libjpeg reports an error by a function that must not return. Throwing through its C frames would
// be undefined, so it jumps back to guarded(), which throws. Between the two are only libjpeg's
// frames and lambdas without destructors.
#include "images/jpeg.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>

// Must follow <cstdio>: they use size_t and FILE.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <cmath>

#include "hydramix/error.h"

namespace hydramix {
namespace {

// A progressive JPEG of a few kilobytes can have thousands of scans, each of which visits every
// block of the picture. Encoders write about ten.
constexpr int kMaxScans = 100;

struct JpegErrors {
  jpeg_error_mgr manager;  // first, so that libjpeg's pointer to it points to this struct
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void jump_out(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->jump, 1);
}

// Level -1 is a warning: libjpeg invents the pixels that it lacks. Only two warnings leave the
// pixels intact: an unknown version of the JFIF header, and an unknown colour transform.
void emit_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  if (code != JWRN_JFIF_MAJOR && code != JWRN_ADOBE_XFORM) jump_out(info);
}

void count_scans(j_common_ptr info) {
  const auto* decoder = reinterpret_cast<j_decompress_ptr>(info);
  if (decoder->input_scan_number > kMaxScans) {
    info->err->msg_code = JERR_BAD_PROGRESSION;
    jump_out(info);
  }
}

// Calls libjpeg; throws what it reports, after `path`.
template <class Step>
void guarded(JpegErrors& errors, const std::string& path, const Step& step) {
  if (setjmp(errors.jump) == 0) {
    step();
    return;
  }
  throw Error(concat(path, ": is not a complete JPEG (", errors.message,
                     "). Fetch or convert the picture again."));
}

jpeg_error_mgr* prepared(JpegErrors& errors) {
  jpeg_std_error(&errors.manager);
  errors.manager.error_exit = jump_out;
  errors.manager.emit_message = emit_message;
  return &errors.manager;
}

class JpegReader {
 public:
  JpegReader(EncodedImage bytes, const std::string& path) : path_(path) {
    decoder_.err = prepared(errors_);
    progress_.progress_monitor = count_scans;
    guarded([&] { jpeg_create_decompress(&decoder_); });
    try {
      decoder_.progress = &progress_;
      guarded([&] {
        jpeg_mem_src(&decoder_, bytes.data(), bytes.size());
        jpeg_read_header(&decoder_, TRUE);
      });
      const ImageSize full = size();
      HYDRAMIX_CHECK(full.height <= kMaxImagePixels / full.width, path_, ": a JPEG of ",
                     full.height, " x ", full.width, " pixels; at most ", kMaxImagePixels,
                     " pixels are read. Shrink the picture.");
    } catch (...) {  // the destructor does not run if the constructor throws
      jpeg_destroy_decompress(&decoder_);
      throw;
    }
  }
  ~JpegReader() { jpeg_destroy_decompress(&decoder_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  ImageSize size() const { return {decoder_.image_height, decoder_.image_width}; }

  ImagePart read(const WantedPart& wanted) {
    const int reduction = reduction_of(wanted);
    decoder_.scale_num = 1;
    decoder_.scale_denom = static_cast<unsigned>(reduction);
    const bool four_channels =
        decoder_.jpeg_color_space == JCS_CMYK || decoder_.jpeg_color_space == JCS_YCCK;
    decoder_.out_color_space = four_channels ? JCS_CMYK : JCS_RGB;
    // Smoothing would blur a progressive JPEG that lacks scans, and a part of it differently than
    // the whole.
    decoder_.do_block_smoothing = FALSE;
    guarded([&] { jpeg_start_decompress(&decoder_); });
    const double scale = 1.0 / reduction;
    const ImageBox box{wanted.box.top * scale, wanted.box.left * scale, wanted.box.height * scale,
                       wanted.box.width * scale};
    return four_channels ? ImagePart{read_cmyk(), box} : read_box(box);
  }

 private:
  // Rows and columns that are left out cost only the decoding of their Huffman codes. Those after
  // the box are read too, because damage there counts, whatever the box.
  ImagePart read_box(const ImageBox& box) {
    // Chroma of a lower resolution is interpolated between neighbours, which the pixels at the
    // edge of what is decoded lack.
    constexpr double kMargin = 2;
    const auto low = [](double edge) {
      return static_cast<JDIMENSION>(std::max(0.0, std::floor(edge - kMargin)));
    };
    const auto high = [](double edge, JDIMENSION size) {
      return static_cast<JDIMENSION>(std::min<double>(size, std::ceil(edge + kMargin)));
    };
    const JDIMENSION top = low(box.top), rows = decoder_.output_height;
    const JDIMENSION bottom = high(box.top + box.height, rows);
    JDIMENSION left = low(box.left);
    JDIMENSION width = high(box.left + box.width, decoder_.output_width) - left;
    guarded([&] {
      // Aligns both to blocks of the picture.
      if (width < decoder_.output_width) jpeg_crop_scanline(&decoder_, &left, &width);
    });
    ImagePart part{Image(bottom - top, width), box};
    part.box.top -= top;
    part.box.left -= left;
    guarded([&] {
      if (top > 0) jpeg_skip_scanlines(&decoder_, top);
      while (decoder_.output_scanline < bottom) {
        JSAMPROW row = part.image.pixel(decoder_.output_scanline - top, 0);
        jpeg_read_scanlines(&decoder_, &row, 1);
      }
      if (bottom < rows) jpeg_skip_scanlines(&decoder_, rows - bottom);
      jpeg_finish_decompress(&decoder_);
    });
    return part;
  }

  // Adobe's programs store the complement of the inks, and mark the file as theirs.
  Image read_cmyk() {
    Image image(decoder_.output_height, decoder_.output_width);
    std::vector<uint8_t> inks(static_cast<std::size_t>(image.width) * 4);
    const int flip = decoder_.saw_Adobe_marker != FALSE ? 0 : 255;
    for (int64_t y = 0; y < image.height; ++y) {
      JSAMPROW row = inks.data();
      guarded([&] { jpeg_read_scanlines(&decoder_, &row, 1); });
      uint8_t* pixel = image.pixel(y, 0);
      for (const uint8_t* ink = row; ink < row + inks.size(); ink += 4)
        for (int channel = 0; channel < 3; ++channel)
          *pixel++ = static_cast<uint8_t>(((ink[channel] ^ flip) * (ink[3] ^ flip) + 127) / 255);
    }
    guarded([&] { jpeg_finish_decompress(&decoder_); });
    return image;
  }

  template <class Step>
  void guarded(const Step& step) {
    hydramix::guarded(errors_, path_, step);
  }

  std::string path_;
  JpegErrors errors_ = {};
  jpeg_progress_mgr progress_ = {};
  jpeg_decompress_struct decoder_ = {};
};

}  // namespace

ImageSize jpeg_size(EncodedImage bytes, const std::string& path) {
  return JpegReader(bytes, path).size();
}

ImagePart decode_jpeg(EncodedImage bytes, const std::string& path, const ChoosePart& choose) {
  JpegReader reader(bytes, path);
  return reader.read(choose(reader.size()));
}

std::string encode_jpeg(const Image& image, int quality) {
  JpegErrors errors = {};
  jpeg_compress_struct encoder = {};
  encoder.err = prepared(errors);
  unsigned char* bytes = nullptr;  // allocated by libjpeg
  unsigned long size = 0;
  const auto free_all = [&] {
    jpeg_destroy_compress(&encoder);
    std::free(bytes);
  };
  try {
    guarded(errors, "encode_jpeg", [&] {
      jpeg_create_compress(&encoder);
      jpeg_mem_dest(&encoder, &bytes, &size);
      encoder.image_height = static_cast<JDIMENSION>(image.height);
      encoder.image_width = static_cast<JDIMENSION>(image.width);
      encoder.input_components = 3;
      encoder.in_color_space = JCS_RGB;
      jpeg_set_defaults(&encoder);
      jpeg_set_quality(&encoder, quality, TRUE);
      jpeg_start_compress(&encoder, TRUE);
      while (encoder.next_scanline < encoder.image_height) {
        auto* row = const_cast<JSAMPROW>(image.pixel(encoder.next_scanline, 0));
        jpeg_write_scanlines(&encoder, &row, 1);
      }
      jpeg_finish_compress(&encoder);
    });
    std::string result(reinterpret_cast<const char*>(bytes), size);
    free_all();
    return result;
  } catch (...) {
    free_all();
    throw;
  }
}

}  // namespace hydramix
