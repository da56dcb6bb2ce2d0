// SPDX-License-Identifier: Apache-2.0
// A whole file as read-only memory. Pages are read from disk when first touched, so opening a large
// checkpoint costs nothing until its tensors are used. Another process that shortens the file while
// it is mapped makes the lost pages fault: replace files by renaming (AtomicFile), which leaves the
// mapped one intact.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

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
  const std::byte* address_ = nullptr;  // nullptr for an empty file
  std::size_t size_ = 0;
};

}  // namespace hydramix
