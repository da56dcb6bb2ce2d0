// SPDX-License-Identifier: Apache-2.0
// Reads zip archives of stored (uncompressed) entries in place, and writes them in one pass, as
// PyTorch does for tensors. Sizes and offsets may exceed 4 GiB (zip64).
//
// The directory at the end of the file is authoritative. All entries are checked before any is
// returned: each lies inside the file, agrees with its local header, overlaps no other and has a
// unique name. Checksums must match; an entry that records 0 has none, because PyTorch has an
// option to write none.
//
// Our archives also end with a comment "hydramix crc32c=" and eight digits, the CRC-32C of all
// bytes before them. It covers the headers too, and is faster to check than zip's own checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"

namespace hydramix {

struct ZipEntry {
  std::string_view name;  // as in the directory, inside the archive's bytes
  std::span<const std::byte> data;
  bool compressed = false;  // data is still compressed; nothing here decompresses it
  bool checked = false;     // a checksum was there, and it matches
};

// Whether the bytes begin like a zip archive.
bool is_zip(std::span<const std::byte> bytes);

// The entries in the order of the directory; they view `bytes`. `origin` names the file in errors.
std::vector<ZipEntry> read_zip(std::span<const std::byte> bytes, const std::string& origin);

class ZipWriter {
 public:
  // Data begins at multiples of this, so that a mapped archive can be used in place.
  static constexpr std::uint64_t kAlignment = 64;
  static constexpr std::uint64_t kLargestSmall = 0xfffffffe;

  // Numbers above `largest_small` are written as zip64.
  explicit ZipWriter(AtomicFile& file, std::uint64_t largest_small = kLargestSmall)
      : file_(file), largest_small_(largest_small) {}

  // `name` has at most 65535 bytes and must be new.
  void add(std::string_view name, std::span<const std::byte> data);
  // Writes the directory and the checksum; nothing may be added afterwards. The file is not
  // committed yet.
  void finish();

 private:
  void write(std::string_view bytes);

  AtomicFile& file_;
  std::uint64_t largest_small_;
  std::uint64_t position_ = 0;
  std::uint64_t count_ = 0;
  std::uint32_t sum_ = 0;  // CRC-32C of all bytes so far
  std::string directory_;
};

}  // namespace hydramix
