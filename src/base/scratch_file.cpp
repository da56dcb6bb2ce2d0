// SPDX-License-Identifier: Apache-2.0
#include "base/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "hydramix/error.h"

namespace hydramix {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

std::string scratch_folder() {
  if (const char* named = std::getenv("TMPDIR"); named != nullptr && *named != '\0') return named;
  return access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
}

// A file without a name, also where the file system has none (O_TMPFILE).
int open_nameless(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return descriptor;
  std::string name = folder + "/hydramix-XXXXXX";
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) unlink(name.c_str());
  return named;
}

}  // namespace

ScratchFile::ScratchFile() : folder_(scratch_folder()), descriptor_(open_nameless(folder_)) {
  if (descriptor_ < 0) fail("cannot create a temporary file");
}

ScratchFile::~ScratchFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : folder_(std::move(other.folder_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      buffer_(std::move(other.buffer_)) {}

void ScratchFile::fail(const char* what) const {
  const int code = errno;
  throw Error(concat(folder_, ": ", what, ": ", std::strerror(code),
                     ". Check that the folder is writable and has space left, or name another one "
                     "in the environment variable TMPDIR."));
}

void ScratchFile::append(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  size_ += bytes.size();
  if (buffer_.size() >= kBufferBytes) finish();
}

void ScratchFile::finish() {
  for (std::size_t done = 0; done < buffer_.size();) {
    const ssize_t count = write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (count < 0 && errno != EINTR) fail("a temporary file cannot be written");
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  buffer_.clear();
}

void ScratchFile::read(uint64_t offset, std::span<std::byte> bytes) const {
  HYDRAMIX_CHECK(buffer_.empty() && offset + bytes.size() <= size_, folder_,
                 ": a temporary file of ", size_, " bytes is read at ", offset, " for ",
                 bytes.size(), " bytes; expected a range inside it, after finish().");
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = pread(descriptor_, bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = EIO;  // the file is shorter than what was written
    if (count <= 0) fail("a temporary file cannot be read");
    done += static_cast<std::size_t>(count);
  }
}

}  // namespace hydramix
