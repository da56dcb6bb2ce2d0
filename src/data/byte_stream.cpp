// SPDX-License-Identifier: Apache-2.0
#include "data/byte_stream.h"

#include <fcntl.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace hydramix {
namespace {

constexpr std::size_t kBuffer = 256 << 10;

enum class Pipes { refused, accepted };

// The bytes on disk, unchanged. "-" is stdin where pipes are accepted.
class PlainStream : public ByteStream {
 public:
  PlainStream(const std::filesystem::path& path, Pipes pipes, uint32_t* crc = nullptr)
      : path_(path), crc_(crc) {
    const bool is_stdin = pipes == Pipes::accepted && path == "-";
    if (is_stdin) path_ = "stdin";
    // Where pipes are refused, opening one must not wait for a writer.
    const int wait = pipes == Pipes::accepted ? 0 : O_NONBLOCK;
    descriptor_ = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                           : open(path.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC | wait);
    HYDRAMIX_CHECK(descriptor_ >= 0, path_.string(), ": cannot be opened: ", std::strerror(errno),
                   ". Check the path and its permissions.");
    try {
      check_type(pipes);
    } catch (...) {  // the destructor does not run if the constructor throws
      close(descriptor_);
      throw;
    }
    posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);
  }
  ~PlainStream() override { close(descriptor_); }
  PlainStream(const PlainStream&) = delete;
  PlainStream& operator=(const PlainStream&) = delete;

  std::size_t read(char* buffer, std::size_t size) override {
    if (!peeked_.empty()) {
      const std::size_t count = peeked_.copy(buffer, size);
      peeked_.erase(0, count);
      return count;
    }
    while (true) {
      const ssize_t count = ::read(descriptor_, buffer, size);
      if (count < 0 && errno == EINTR) continue;
      HYDRAMIX_CHECK(count >= 0, path_.string(), ": cannot be read at byte ", consumed_, ": ",
                     std::strerror(errno), ". Check the disk.");
      consumed_ += count;
      if (crc_ != nullptr && count > 0)
        *crc_ = static_cast<uint32_t>(crc32_z(*crc_, reinterpret_cast<const Bytef*>(buffer),
                                              static_cast<std::size_t>(count)));
      // An empty read ends a file. A file that was longer when it was opened has been cut off.
      HYDRAMIX_CHECK(count > 0 || size == 0 || consumed_ >= size_, path_.string(),
                     ": ends at byte ", consumed_, ", had ", size_,
                     " bytes when it was opened. Another process writes it; wait for that, then "
                     "try again.");
      return static_cast<std::size_t>(count);
    }
  }
  int64_t consumed() const override { return consumed_; }

  // The first bytes, at most `count`, which read() returns again.
  const std::string& peek(std::size_t count) {
    std::string first(count, '\0');
    std::size_t done = 0;
    while (done < count) {
      const std::size_t got = read(first.data() + done, count - done);
      if (got == 0) break;
      done += got;
    }
    first.resize(done);
    return peeked_ = std::move(first);
  }
  void seek(int64_t offset) {
    HYDRAMIX_CHECK(lseek(descriptor_, offset, SEEK_SET) == offset, path_.string(),
                   ": cannot be read from byte ", offset, ": ", std::strerror(errno), ".");
    peeked_.clear();
    consumed_ = offset;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  void check_type(Pipes pipes) {
    struct stat status = {};
    HYDRAMIX_CHECK(fstat(descriptor_, &status) == 0, path_.string(),
                   ": cannot be examined: ", std::strerror(errno), ". Check the disk.");
    HYDRAMIX_CHECK(!S_ISDIR(status.st_mode), path_.string(),
                   ": is a directory, expected a file. Name a file inside it.");
    HYDRAMIX_CHECK(S_ISREG(status.st_mode) || pipes == Pipes::accepted, path_.string(),
                   ": is not a regular file. Save its contents to a file first.");
    // Devices such as /dev/zero never end. A terminal does.
    const bool device = S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode);
    HYDRAMIX_CHECK(!device || path_ == "stdin" || isatty(descriptor_) != 0, path_.string(),
                   ": is a device, expected a file, a pipe or a terminal. Save its contents to a "
                   "file first.");
    // stdin may be a file that was read in part.
    if (S_ISREG(status.st_mode) && path_ != "stdin") size_ = status.st_size;
  }

  std::filesystem::path path_;
  int descriptor_ = -1;
  uint32_t* crc_;
  int64_t size_ = 0;  // when it was opened; 0 where it is not known
  int64_t consumed_ = 0;
  std::string peeked_;
};

// Shared by the archive formats: a buffer of compressed bytes, and damage, which is reported only
// after all data before it was returned.
class ArchiveStream : public ByteStream {
 public:
  explicit ArchiveStream(std::unique_ptr<PlainStream> file)
      : file_(std::move(file)), packed_(kBuffer) {}

  std::size_t read(char* buffer, std::size_t size) final {
    if (damage_.empty()) {
      const std::size_t count = decompress(buffer, size);
      if (count > 0 || damage_.empty()) return count;
    }
    throw DamagedArchive(damage_);
  }
  int64_t consumed() const final { return file_->consumed(); }

 protected:
  virtual std::size_t decompress(char* buffer, std::size_t size) = 0;

  std::string path() const { return file_->path().string(); }
  std::span<char> more_packed() {
    return {packed_.data(), file_->read(packed_.data(), packed_.size())};
  }
  void set_damage(const std::string& what) {
    damage_ = concat(path(), ": ", what, " before byte ", file_->consumed(),
                     " of the file. Fetch or pack it again.");
  }

 private:
  std::unique_ptr<PlainStream> file_;
  std::vector<char> packed_;
  std::string damage_;
};

class GzipStream final : public ArchiveStream {
 public:
  explicit GzipStream(std::unique_ptr<PlainStream> file) : ArchiveStream(std::move(file)) {
    HYDRAMIX_CHECK(inflateInit2(&zlib_, 15 + 16) == Z_OK, "zlib cannot be initialised.");
  }
  ~GzipStream() override { inflateEnd(&zlib_); }

 private:
  std::size_t decompress(char* buffer, std::size_t size) override {
    zlib_.next_out = reinterpret_cast<Bytef*>(buffer);
    zlib_.avail_out = static_cast<uInt>(size);
    while (zlib_.avail_out > 0) {
      if (zlib_.avail_in == 0) {
        const auto packed = more_packed();
        if (packed.empty()) {
          if (!between_members_) set_damage("the gzip archive ends too early,");
          break;
        }
        zlib_.next_in = reinterpret_cast<Bytef*>(packed.data());
        zlib_.avail_in = static_cast<uInt>(packed.size());
      }
      if (between_members_) inflateReset(&zlib_);
      between_members_ = false;
      const int status = inflate(&zlib_, Z_NO_FLUSH);
      between_members_ = status == Z_STREAM_END;
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
        set_damage(concat("the gzip archive is damaged (",
                          zlib_.msg != nullptr ? zlib_.msg : zError(status), ")"));
        break;
      }
    }
    return size - zlib_.avail_out;
  }

  z_stream zlib_ = {};
  bool between_members_ = false;
};

class ZstdStream final : public ArchiveStream {
 public:
  explicit ZstdStream(std::unique_ptr<PlainStream> file) : ArchiveStream(std::move(file)) {
    HYDRAMIX_CHECK(zstd_ != nullptr, "zstd cannot be initialised.");
  }
  ~ZstdStream() override { ZSTD_freeDCtx(zstd_); }

 private:
  std::size_t decompress(char* buffer, std::size_t size) override {
    ZSTD_outBuffer out = {buffer, size, 0};
    while (out.pos < out.size) {
      // When the output buffer was full, zstd may have more output without more input.
      if (in_.pos == in_.size && !holds_more_) {
        const auto packed = more_packed();
        if (packed.empty()) {
          if (wanted_ != 0) set_damage("the zstd archive ends too early,");
          break;
        }
        in_ = {packed.data(), packed.size(), 0};
      }
      wanted_ = ZSTD_decompressStream(zstd_, &out, &in_);
      if (ZSTD_isError(wanted_) != 0) {
        set_damage(concat("the zstd archive is damaged (", ZSTD_getErrorName(wanted_), ")"));
        break;
      }
      holds_more_ = out.pos == out.size && wanted_ != 0;
    }
    return out.pos;
  }

  ZSTD_DCtx* zstd_ = ZSTD_createDCtx();
  ZSTD_inBuffer in_ = {nullptr, 0, 0};
  std::size_t wanted_ = 1;  // 0 between two frames
  bool holds_more_ = false;
};

class XzStream final : public ArchiveStream {
 public:
  explicit XzStream(std::unique_ptr<PlainStream> file) : ArchiveStream(std::move(file)) {
    const lzma_ret status = lzma_stream_decoder(&lzma_, kMemory, LZMA_CONCATENATED);
    HYDRAMIX_CHECK(status == LZMA_OK, "liblzma cannot be initialised (error ",
                   static_cast<int>(status), ").");
  }
  ~XzStream() override { lzma_end(&lzma_); }

 private:
  // xz -9 needs 65 MiB. As with zstd, an archive cannot ask for more than a window of 128 MiB.
  static constexpr uint64_t kMemory = uint64_t{130} << 20;

  std::size_t decompress(char* buffer, std::size_t size) override {
    lzma_.next_out = reinterpret_cast<uint8_t*>(buffer);
    lzma_.avail_out = size;
    while (lzma_.avail_out > 0 && !ended_) {
      if (lzma_.avail_in == 0 && action_ == LZMA_RUN) {
        const auto packed = more_packed();
        if (packed.empty()) action_ = LZMA_FINISH;  // only the file's end ends the last stream
        lzma_.next_in = reinterpret_cast<const uint8_t*>(packed.data());
        lzma_.avail_in = packed.size();
      }
      const lzma_ret status = lzma_code(&lzma_, action_);
      ended_ = status != LZMA_OK;
      HYDRAMIX_CHECK(status != LZMA_MEMLIMIT_ERROR, path(), ": needs ",
                     (lzma_memusage(&lzma_) >> 20) + 1, " MiB to be decompressed; at most ",
                     kMemory >> 20, " MiB are given. Pack it again with xz -9 or less.");
      if (status == LZMA_BUF_ERROR)
        set_damage("the xz archive ends too early,");
      else if (ended_ && status != LZMA_STREAM_END)
        set_damage(concat("the xz archive is damaged (", reason(status), ")"));
    }
    return size - lzma_.avail_out;
  }

  static const char* reason(lzma_ret status) {
    switch (status) {
      case LZMA_FORMAT_ERROR:
        return "it does not begin like one";
      case LZMA_OPTIONS_ERROR:
        return "unknown options";
      case LZMA_DATA_ERROR:
        return "wrong data or checksum";
      case LZMA_MEM_ERROR:
        return "no memory";
      default:
        return "liblzma failed";
    }
  }

  lzma_stream lzma_ = LZMA_STREAM_INIT;
  lzma_action action_ = LZMA_RUN;
  bool ended_ = false;
};

enum class Packing { none, gzip, zstd, xz };

Packing packing_of(PlainStream& file) {
  const auto extension = file.path().extension();
  if (extension == ".gz") return Packing::gzip;
  if (extension == ".zst") return Packing::zstd;
  if (extension == ".xz") return Packing::xz;
  const std::string& first = file.peek(6);
  if (first.starts_with("\x1f\x8b")) return Packing::gzip;
  if (first.starts_with("\x28\xb5\x2f\xfd")) return Packing::zstd;
  if (first == std::string_view("\xfd\x37zXZ\0", 6)) return Packing::xz;
  return Packing::none;
}

void skip(ByteStream& stream, int64_t count) {
  std::vector<char> dropped(kBuffer);
  while (count > 0) {
    const auto wanted = std::min(static_cast<std::size_t>(count), dropped.size());
    const std::size_t got = stream.read(dropped.data(), wanted);
    if (got == 0) return;
    count -= static_cast<int64_t>(got);
  }
}

std::unique_ptr<ByteStream> opened(std::unique_ptr<PlainStream> file, int64_t offset) {
  const Packing packing = packing_of(*file);
  std::unique_ptr<ByteStream> stream;
  if (packing == Packing::gzip)
    stream = std::make_unique<GzipStream>(std::move(file));
  else if (packing == Packing::zstd)
    stream = std::make_unique<ZstdStream>(std::move(file));
  else if (packing == Packing::xz)
    stream = std::make_unique<XzStream>(std::move(file));
  else
    stream = std::move(file);
  skip(*stream, offset);
  return stream;
}

}  // namespace

std::unique_ptr<ByteStream> open_bytes(const std::filesystem::path& path, int64_t offset,
                                       uint32_t* crc) {
  return opened(std::make_unique<PlainStream>(path, Pipes::refused, crc), offset);
}

std::unique_ptr<ByteStream> open_text(const std::filesystem::path& path) {
  return opened(std::make_unique<PlainStream>(path, Pipes::accepted), 0);
}

uint32_t file_crc(const std::filesystem::path& path, int64_t begin, int64_t end, uint32_t crc) {
  PlainStream file(path, Pipes::refused);
  file.seek(begin);
  std::vector<char> buffer(kBuffer);
  while (begin < end) {
    const auto wanted = std::min<int64_t>(end - begin, std::ssize(buffer));
    const std::size_t got = file.read(buffer.data(), static_cast<std::size_t>(wanted));
    if (got == 0) break;
    crc = static_cast<uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(buffer.data()), got));
    begin += static_cast<int64_t>(got);
  }
  return crc;
}

}  // namespace hydramix
