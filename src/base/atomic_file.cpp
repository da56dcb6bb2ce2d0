// SPDX-License-Identifier: Apache-2.0
#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <regex>
#include <set>
#include <string>

#include "base/list_folder.h"
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

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// "model.safetensors.tmp.4711.0"
bool is_temporary_name(const std::string& name) {
  static const std::regex pattern(R"(.+\.tmp\.[0-9]+\.[0-9]+)");
  return std::regex_match(name, pattern);
}

// Removes temporary files whose process has ended: a writer holds a lock on its file as long as it
// runs, on this machine or another. Once for each folder, since others may be large.
void sweep_once(const std::filesystem::path& folder) {
  static std::mutex mutex;
  static std::set<std::filesystem::path> swept;
  {
    const std::lock_guard lock(mutex);
    if (!swept.insert(folder).second) return;
  }
  std::error_code failed;
  for (const auto& path : list_folder(folder, failed)) {
    if (!is_temporary_name(path.filename().string())) continue;
    const int descriptor = open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0) continue;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
    close(descriptor);
  }
}

// Creates a file and locks it, unless another process takes it for an abandoned one and removes it
// before it is locked.
int create_locked(const std::filesystem::path& path) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return -1;
  // Where there are no locks, nothing is removed either.
  while (flock(descriptor, LOCK_EX) != 0 && errno == EINTR) continue;
  struct stat status = {};
  const bool examined = fstat(descriptor, &status) == 0;
  if (examined && status.st_nlink > 0) return descriptor;
  const int code = examined ? EEXIST : errno;  // EEXIST: try another name
  close(descriptor);
  if (!examined) unlink(path.c_str());
  errno = code;
  return -1;
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& target) : target_(resolved(target)) {
  HYDRAMIX_CHECK(!std::filesystem::is_directory(target_), target_.string(),
                 ": is a directory; name a file to write.");
  // Renaming over a device or a pipe would replace it.
  HYDRAMIX_CHECK(!std::filesystem::exists(target_) || std::filesystem::is_regular_file(target_),
                 target_.string(), ": is a device or a pipe; name an ordinary file to write.");
  sweep_once(folder_of(target_));
  // Not mkstemp: its files are readable by their owner only, and results are to be shared.
  static std::atomic<int> counter = 0;
  do {
    temporary_ = target_;
    temporary_ += concat(".tmp.", getpid(), ".", counter++);
    descriptor_ = create_locked(temporary_);
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
  const auto folder = folder_of(target_).string();
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
  const auto folder = folder_of(target_);
  if (const int directory = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      directory >= 0) {
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
