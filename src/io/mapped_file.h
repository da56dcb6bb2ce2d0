// SPDX-License-Identifier: Apache-2.0
// A whole file as read-only memory. Pages are read from disk when first touched, so opening a large
// checkpoint costs nothing until its tensors are used. Another process that shortens the file while
// it is mapped, and a disk that fails, make pages fault with SIGBUS: replace files by renaming
// (AtomicFile), which leaves the mapped one intact.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace hydramix {

class MappedFile {
 public:
  // Error when the path is missing, unreadable, or a directory, a pipe or a device.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {address_, size_}; }

 private:
  std::string path_;
  const std::byte* address_ = nullptr;  // nullptr for an empty file
  std::size_t size_ = 0;
};

// For programs: SIGBUS at an address of a mapped file prints an error that names the file and ends
// the process with code 1. Elsewhere it keeps its default action.
void name_mapped_file_on_fault();

}  // namespace hydramix
