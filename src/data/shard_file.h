// SPDX-License-Identifier: Apache-2.0
// One file of tokens:
//
//   8 bytes    "HMTOKENS"
//   u32, u32   version of the layout, 2; bytes of an id: 2 or 4
//   ids        of all documents end to end, then zeros up to a multiple of 8 bytes
//   u64 ...    for each document the number of ids up to its end
//   u32 ...    CRC-32C of each 64 KiB of everything before; the last part may be shorter
//
// All numbers little-endian. The index has the number of ids and documents and the CRC-32C of the
// last table. A part is checked when it is first read, so that a run that reads at random waits for
// no whole file. Version 1 has no such table, and the index has the CRC-32 of the whole file, which
// is checked when the file is first read.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "io/mapped_file.h"

namespace hydramix {

static_assert(std::endian::native == std::endian::little, "shards are mapped as they lie on disk");

// The index entry of a shard.
struct ShardInfo {
  std::string file;  // a name within the folder
  int64_t tokens = 0, documents = 0, bytes = 0;
  int64_t layout = 2;     // version
  uint32_t checksum = 0;  // layout 2: CRC-32C of the table of checksums; 1: CRC-32 of the file
  bool operator==(const ShardInfo&) const = default;
};

// The size that the file of `info` must have.
int64_t shard_bytes(const ShardInfo& info, int64_t id_bytes);

// The table of checksums of `body`, the file up to the table.
std::vector<uint32_t> shard_checksums(std::span<const std::byte> body);

class ShardWriter {
 public:
  ShardWriter(const std::filesystem::path& folder, std::string name, int64_t id_bytes);
  // Ids that are not negative and fit into id_bytes.
  void add(std::span<const int32_t> ids);
  const ShardInfo& info() const { return info_; }  // tokens and documents so far
  ShardInfo commit();                              // makes the file visible

 private:
  void write(const void* data, std::size_t size);

  AtomicFile file_;
  int64_t id_bytes_;
  ShardInfo info_;
  std::vector<uint32_t> sums_;  // of the parts; the last one is in progress
  std::vector<uint64_t> ends_;
  std::vector<uint16_t> narrow_;
};

class ShardReader {
 public:
  // Throws Error when the file does not match `info`.
  ShardReader(const std::filesystem::path& folder, const ShardInfo& info, int64_t id_bytes,
              int64_t vocabulary);
  const ShardInfo& info() const { return info_; }
  int64_t length(int64_t document) const;
  void read(int64_t document, std::vector<int32_t>& ids) const;
  // Checks the checksums, every id and every end. Throws Error.
  void verify() const;

 private:
  struct Range {
    int64_t begin, end;
  };
  Range range(int64_t document) const;
  uint64_t end_of(int64_t document) const;
  // Checks the parts that hold these bytes, unless they were checked before.
  void check_parts(const std::byte* begin, const std::byte* end) const;
  void check_part(int64_t part) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_;
  ShardInfo info_;
  int64_t id_bytes_, vocabulary_;
  std::unique_ptr<MappedFile> file_;
  const std::byte* ids_;
  const std::byte* ends_;
  int64_t part_bytes_ = 0;                              // all of a file of layout 1
  std::vector<uint32_t> sums_;                          // of the parts
  mutable std::unique_ptr<std::atomic<bool>[]> sound_;  // the parts that were checked
};

}  // namespace hydramix
