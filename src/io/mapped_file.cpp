// SPDX-License-Identifier: Apache-2.0
#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "hydramix/error.h"

namespace hydramix {
namespace {

// The mapping outlives the descriptor, which is only needed inside the constructor.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer that may never come.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  HYDRAMIX_CHECK(file.number >= 0, path.string(), ": cannot be opened: ", std::strerror(errno),
                 ". Check the path and its permissions.");
  struct stat status = {};
  HYDRAMIX_CHECK(fstat(file.number, &status) == 0, path.string(),
                 ": cannot be examined: ", std::strerror(errno), ".");
  HYDRAMIX_CHECK(!S_ISDIR(status.st_mode), path.string(),
                 ": is a directory, expected a file. Name a file inside it.");
  HYDRAMIX_CHECK(S_ISREG(status.st_mode), path.string(),
                 ": is a pipe or a device, expected a regular file. Save its contents to a file "
                 "first.");
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;  // mmap refuses an empty range
  // Writable but private: LibTorch has no read-only tensors. Writing to a tensor that views the
  // file must change a private page; it must not change the file or crash.
  void* address = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.number, 0);
  HYDRAMIX_CHECK(address != MAP_FAILED, path.string(), ": its ", size_,
                 " bytes cannot be mapped into memory: ", std::strerror(errno), ".");
  address_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) munmap(const_cast<std::byte*>(address_), size_);
}

}  // namespace hydramix
