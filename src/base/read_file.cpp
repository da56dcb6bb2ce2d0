// SPDX-License-Identifier: Apache-2.0
#include "base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "hydramix/error.h"

namespace hydramix {
namespace {

class RegularFile {
 public:
  explicit RegularFile(const std::filesystem::path& path)
      : path_(path.string()),
        // Without O_NONBLOCK, opening a pipe would wait for a writer that may never come.
        descriptor_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) {
    HYDRAMIX_CHECK(descriptor_ >= 0, path_, ": cannot be opened: ", std::strerror(errno),
                   ". Check the path.");
    try {
      const auto mode = status().st_mode;
      HYDRAMIX_CHECK(!S_ISDIR(mode), path_, ": is a directory, expected a file.");
      HYDRAMIX_CHECK(S_ISREG(mode), path_,
                     ": is a pipe or a device, expected a regular file. Save its contents to a "
                     "file first.");
    } catch (...) {
      close(descriptor_);
      throw;
    }
  }
  ~RegularFile() { close(descriptor_); }
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  struct stat status() const {
    struct stat result = {};
    HYDRAMIX_CHECK(fstat(descriptor_, &result) == 0, path_,
                   ": cannot be examined: ", std::strerror(errno), ". Check the disk.");
    return result;
  }

  void go_to(int64_t byte) {
    HYDRAMIX_CHECK(lseek(descriptor_, byte, SEEK_SET) == byte, path_, ": byte ", byte,
                   " cannot be reached: ", std::strerror(errno), ". Check the disk.");
  }

  // Reads until the buffer is full or the file ends; returns the number of bytes.
  std::size_t read(char* buffer, std::size_t size) {
    std::size_t done = 0;
    while (done < size) {
      const ssize_t count = ::read(descriptor_, buffer + done, size - done);
      if (count < 0 && errno == EINTR) continue;
      HYDRAMIX_CHECK(count >= 0, path_, ": cannot be read at byte ", done, ": ",
                     std::strerror(errno), ". Check the disk.");
      if (count == 0) break;
      done += static_cast<std::size_t>(count);
    }
    return done;
  }

 private:
  std::string path_;
  int descriptor_;
};

bool same_version(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

}  // namespace

std::string read_file(const std::filesystem::path& path, const FileKind& kind) {
  RegularFile file(path);
  const struct stat before = file.status();
  HYDRAMIX_CHECK(before.st_size <= kind.limit, path.string(), ": has ", before.st_size, " bytes; ",
                 kind.name, " has at most ", kind.limit, ". Check that this is the right file.");
  const auto size = static_cast<std::size_t>(before.st_size);
  std::string contents(size, '\0');
  const std::size_t count = file.read(contents.data(), size);
  bool changed = count < size;
  if (!kind.grows) {
    char more;
    changed = changed || file.read(&more, 1) > 0 || !same_version(before, file.status());
  }
  HYDRAMIX_CHECK(!changed, path.string(), ": changed while it was read: ", size,
                 " bytes at first. Another process writes it; wait for that, then try again.");
  return contents;
}

std::string read_start(const std::filesystem::path& path, std::size_t count) {
  RegularFile file(path);
  std::string bytes(std::min(count, static_cast<std::size_t>(file.status().st_size)), '\0');
  bytes.resize(file.read(bytes.data(), bytes.size()));
  return bytes;
}

FilePart read_part(const std::filesystem::path& path, int64_t begin, std::size_t count) {
  RegularFile file(path);
  const int64_t size = file.status().st_size;
  FilePart part{{}, begin > size ? 0 : begin};
  part.bytes.resize(std::min(count, static_cast<std::size_t>(size - part.begin)));
  file.go_to(part.begin);
  part.bytes.resize(file.read(part.bytes.data(), part.bytes.size()));
  return part;
}

std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

}  // namespace hydramix
