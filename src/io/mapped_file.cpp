// SPDX-License-Identifier: Apache-2.0
#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
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

// The mappings, for the handler of SIGBUS, which may only read memory that never moves. Where there
// are more of them, the rest is not named.
struct Mapping {
  std::atomic<const std::byte*> begin = nullptr;  // nullptr: the entry is free
  std::atomic<std::size_t> size = 0;
  std::atomic<const char*> path = nullptr;  // owned by the MappedFile
};
std::array<Mapping, 4096> mappings;

void add_mapping(const std::byte* begin, std::size_t size, const char* path) {
  for (Mapping& mapping : mappings) {
    const std::byte* free = nullptr;
    if (!mapping.begin.compare_exchange_strong(free, begin)) continue;
    mapping.path = path;
    mapping.size = size;
    return;
  }
}

void remove_mapping(const std::byte* begin) {
  for (Mapping& mapping : mappings)
    if (mapping.begin == begin) {
      mapping.size = 0;
      mapping.begin = nullptr;
      return;
    }
}

void print(const char* text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text, std::strlen(text));
}

// Calls only functions that are safe in a signal handler.
void on_fault(int number, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Mapping& mapping : mappings) {
    const auto begin = reinterpret_cast<std::uintptr_t>(mapping.begin.load());
    if (begin == 0 || address < begin || address - begin >= mapping.size) continue;
    print("error: ");
    print(mapping.path);
    print(
        ": a part of it can no longer be read: it was shortened while it was in use, or the disk "
        "fails. Restore the file and run the command again.\n");
    _exit(1);
  }
  std::signal(number, SIG_DFL);  // the instruction is repeated, and ends the process
}

}  // namespace

void name_mapped_file_on_fault() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path.string()) {
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
  add_mapping(address_, size_, path_.c_str());
}

MappedFile::~MappedFile() {
  if (address_ == nullptr) return;
  remove_mapping(address_);
  munmap(const_cast<std::byte*>(address_), size_);
}

}  // namespace hydramix
