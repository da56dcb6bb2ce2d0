// SPDX-License-Identifier: Apache-2.0
#include "data/gzip_file.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "hydramix/error.h"

namespace hydramix {

struct GzipFile::State {
  explicit State(const std::filesystem::path& target)
      : path(target.string()), file(target), buffer(std::size_t{1} << 16) {
    constexpr int kGzipWindow = 15 + 16;  // 32 KiB, in gzip's frame rather than zlib's
    const int status = deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8,
                                    Z_DEFAULT_STRATEGY);
    HYDRAMIX_CHECK(status == Z_OK, path, ": zlib could not begin to compress (", zError(status),
                   "). Free some memory.");
  }
  ~State() { deflateEnd(&stream); }

  // Compresses what stream.next_in holds.
  void pump(int flush) {
    do {
      stream.next_out = buffer.data();
      stream.avail_out = static_cast<uInt>(buffer.size());
      const int status = deflate(&stream, flush);
      HYDRAMIX_CHECK(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR, path,
                     ": zlib could not compress (", zError(status), "). Try again.");
      file.write(buffer.data(), buffer.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  }

  std::string path;
  AtomicFile file;
  std::vector<Bytef> buffer;
  z_stream stream{};
};

GzipFile::GzipFile(const std::filesystem::path& target) : state_(std::make_unique<State>(target)) {}

GzipFile::~GzipFile() = default;

void GzipFile::write(std::string_view text) {
  constexpr std::size_t kMaxInput = std::numeric_limits<uInt>::max();
  while (!text.empty()) {
    const std::size_t size = std::min(text.size(), kMaxInput);
    // zlib does not write to its input; its interface predates const.
    state_->stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    state_->stream.avail_in = static_cast<uInt>(size);
    state_->pump(Z_NO_FLUSH);
    text.remove_prefix(size);
  }
}

void GzipFile::commit() {
  state_->stream.avail_in = 0;
  state_->pump(Z_FINISH);
  state_->file.commit();
}

}  // namespace hydramix
