// SPDX-License-Identifier: Apache-2.0
// Streams the contents of a file in constant memory, decompressing gzip, zstd and xz. Archives
// of several members, frames or streams read as one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "hydramix/error.h"

namespace hydramix {

// A truncated or corrupt archive. The data before the damage has already been returned.
class DamagedArchive : public Error {
 public:
  using Error::Error;
};

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Returns the number of bytes read into `buffer`; 0 at the end.
  virtual std::size_t read(char* buffer, std::size_t size) = 0;
  // Bytes read from the file on disk so far, for progress.
  virtual int64_t consumed() const = 0;
};

// Starts at byte `offset` of the contents, which are read and discarded up to there. A file named
// .gz, .zst or .xz must be such an archive; otherwise its first bytes decide. Adds every byte that
// is read from the disk to `crc`, a CRC-32, which must outlive the stream.
std::unique_ptr<ByteStream> open_bytes(const std::filesystem::path& path, int64_t offset = 0,
                                       uint32_t* crc = nullptr);

// The same from the start, also of a pipe, a terminal, or stdin for "-": for line-oriented text,
// which is read once.
std::unique_ptr<ByteStream> open_text(const std::filesystem::path& path);

// `crc` with the bytes of a file on disk from `begin` to `end` added to it.
uint32_t file_crc(const std::filesystem::path& path, int64_t begin, int64_t end, uint32_t crc);

}  // namespace hydramix
