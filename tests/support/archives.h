// SPDX-License-Identifier: Apache-2.0
// Compresses in memory, for tests that read archives.
#pragma once

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <stdexcept>
#include <string>

namespace hydramix::test {

// One member; members may be joined.
inline std::string gzip(const std::string& contents) {
  z_stream zlib = {};
  if (deflateInit2(&zlib, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2 failed");
  std::string packed(deflateBound(&zlib, contents.size()) + 64, '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
  zlib.avail_in = static_cast<uInt>(contents.size());
  zlib.next_out = reinterpret_cast<Bytef*>(packed.data());
  zlib.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&zlib, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("deflate failed");
  packed.resize(zlib.total_out);
  deflateEnd(&zlib);
  return packed;
}

// One frame; frames may be joined.
inline std::string zstd(const std::string& contents) {
  std::string packed(ZSTD_compressBound(contents.size()), '\0');
  const std::size_t size =
      ZSTD_compress(packed.data(), packed.size(), contents.data(), contents.size(), 3);
  if (ZSTD_isError(size) != 0) throw std::runtime_error("ZSTD_compress failed");
  packed.resize(size);
  return packed;
}

// One stream; streams may be joined. `dictionary` is how many bytes back it may refer.
inline std::string xz(const std::string& contents, uint32_t dictionary = 1 << 20) {
  lzma_options_lzma options;
  lzma_lzma_preset(&options, 0);
  options.dict_size = dictionary;
  const lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
  std::string packed(lzma_stream_buffer_bound(contents.size()), '\0');
  std::size_t size = 0;
  const lzma_ret status =
      lzma_stream_buffer_encode(const_cast<lzma_filter*>(filters), LZMA_CHECK_CRC64, nullptr,
                                reinterpret_cast<const uint8_t*>(contents.data()), contents.size(),
                                reinterpret_cast<uint8_t*>(packed.data()), &size, packed.size());
  if (status != LZMA_OK) throw std::runtime_error("lzma_stream_buffer_encode failed");
  packed.resize(size);
  return packed;
}

}  // namespace hydramix::test
