// SPDX-License-Identifier: Apache-2.0
// Bytes that are too many for memory: appended once, then read in pieces. The file has no name, so
// that nothing is left of it when the process ends, however that happens. It lies in $TMPDIR, or
// else in /var/tmp, which is on a disk where /tmp may be in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hydramix {

class ScratchFile {
 public:
  ScratchFile();
  ~ScratchFile();
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&&) = delete;

  void append(std::span<const std::byte> bytes);
  void finish();  // writes what is still in the buffer; nothing may be appended afterwards
  // Fills `bytes` from `offset` on. Thread-safe after finish().
  void read(uint64_t offset, std::span<std::byte> bytes) const;
  uint64_t size() const { return size_; }

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string folder_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace hydramix
