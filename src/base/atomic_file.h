// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all: written under a temporary name beside its target,
// fsynced, renamed over it, and the directory entry fsynced too. If the writer throws, or the
// object dies before commit(), the temporary file is removed and the target is untouched.
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
  // Makes the file appear under its name. Nothing may be written afterwards.
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path target_, temporary_;
  int descriptor_ = -1;
};

// Writes or reads a small file at once.
void write_file(const std::filesystem::path& path, std::string_view contents);
std::string read_file(const std::filesystem::path& path);

}  // namespace hydramix
