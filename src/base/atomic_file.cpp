// SPDX-License-Identifier: Apache-2.0
#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include "hydramix/error.h"

namespace hydramix {
namespace {

// Follows a link, so that the file it points to gets the new contents.
std::filesystem::path resolved(const std::filesystem::path& path) {
  return std::filesystem::is_symlink(path) ? std::filesystem::weakly_canonical(path) : path;
}

// For tests of crashes: HYDRAMIX_SIGNAL_AT=NAME:POINT:SIGNAL sends the process a signal when a file
// called NAME is at a point of its life. "step-0000000005.safetensors:written:9" kills it before
// that checkpoint appears.
void signal_if_asked(const std::filesystem::path& target, const char* point) {
  static const char* const asked = std::getenv("HYDRAMIX_SIGNAL_AT");
  if (asked == nullptr) return;
  const std::string here = concat(target.filename().string(), ":", point, ":");
  if (std::string_view(asked).starts_with(here)) kill(getpid(), std::atoi(asked + here.size()));
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& target) : target_(resolved(target)) {
  HYDRAMIX_CHECK(!std::filesystem::is_directory(target_), target_.string(),
                 ": is a directory; name a file to write.");
  // Renaming over a device or a pipe would replace it.
  HYDRAMIX_CHECK(!std::filesystem::exists(target_) || std::filesystem::is_regular_file(target_),
                 target_.string(), ": is a device or a pipe; name an ordinary file to write.");
  // Not mkstemp: its files are readable by their owner only, and results are to be shared.
  static std::atomic<int> counter = 0;
  do {
    temporary_ = target_;
    temporary_ += concat(".tmp.", getpid(), ".", counter++);
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) {
    temporary_.clear();
    fail("cannot be created");
  }
  signal_if_asked(target_, "created");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* what) const {
  const int code = errno;
  const auto folder = target_.has_parent_path() ? target_.parent_path().string() : std::string(".");
  throw Error(concat(target_.string(), ": ", what, ": ", std::strerror(code), ". Check that ",
                     folder, " exists, is writable and has space left."));
}

void AtomicFile::write(const void* data, std::size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(descriptor_, next, size);
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("cannot be written");
    }
    next += written;
    size -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::replace_beginning(std::string_view text) {
  if (lseek(descriptor_, 0, SEEK_SET) != 0) fail("cannot be written");
  write(text);
  if (lseek(descriptor_, 0, SEEK_END) < 0) fail("cannot be written");
}

void AtomicFile::commit() {
  signal_if_asked(target_, "written");
  if (fsync(descriptor_) != 0) fail("cannot be flushed to disk");
  const int closed = close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail("cannot be closed");
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot be renamed into place");
  temporary_.clear();
  signal_if_asked(target_, "renamed");
  // The rename survives a crash only after the directory is on disk.
  const auto folder =
      target_.has_parent_path() ? target_.parent_path() : std::filesystem::path(".");
  if (const int directory = open(folder.c_str(), O_RDONLY | O_DIRECTORY); directory >= 0) {
    fsync(directory);
    close(directory);
  }
}

void write_file(const std::filesystem::path& path, std::string_view contents) {
  AtomicFile file(path);
  file.write(contents);
  file.commit();
}

}  // namespace hydramix
