// SPDX-License-Identifier: Apache-2.0
// Writes a file atomically: under a temporary name in the target's folder, then fsync, rename, and
// fsync of the folder. If the writer throws, or the object is destroyed before commit(), the
// temporary file is removed and the target stays as it was. The temporary file of a process that
// was killed is removed by the next one that writes into the folder.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace hydramix {

class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Replaces bytes at the beginning, which were written before.
  void replace_beginning(std::string_view text);
  // Makes the file appear under its name. Nothing may be written afterwards.
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path target_, temporary_;
  int descriptor_ = -1;
};

// For small files.
void write_file(const std::filesystem::path& path, std::string_view contents);

}  // namespace hydramix
