// SPDX-License-Identifier: Apache-2.0
// One file of tokens:
//
//   8 bytes    "HMTOKENS"
//   u32, u32   version of the layout; bytes of an id: 2 or 4
//   ids        of all documents end to end, then zeros up to a multiple of 8 bytes
//   u64 ...    for each document the number of ids up to its end
//
// All numbers little-endian. The index has the number of ids and documents.
#pragma once

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
  uint32_t crc32 = 0;  // of the whole file
  bool operator==(const ShardInfo&) const = default;
};

int64_t shard_bytes(int64_t tokens, int64_t documents, int64_t id_bytes);

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
  // Checks the checksum, every id and every end. Throws Error.
  void verify() const;

 private:
  struct Range {
    int64_t begin, end;
  };
  Range range(int64_t document) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_;
  ShardInfo info_;
  int64_t id_bytes_, vocabulary_;
  std::unique_ptr<MappedFile> file_;
  const std::byte* ids_;
  const std::byte* ends_;
};

}  // namespace hydramix
