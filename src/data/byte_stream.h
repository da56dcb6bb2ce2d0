// SPDX-License-Identifier: Apache-2.0
// The contents of a file as a stream, unpacked on the way if it is a gzip or zstd archive, in
// constant memory. Archives of several members or frames read as one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "hydramix/error.h"

namespace hydramix {

// An archive that ends too early or whose contents are not what was packed. What came before the
// damage has been read.
class DamagedArchive : public Error {
 public:
  using Error::Error;
};

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `buffer` as far as there is anything left; 0 at the end.
  virtual std::size_t read(char* buffer, std::size_t size) = 0;
  // Bytes taken from the file itself so far, for progress.
  virtual int64_t consumed() const = 0;
};

// From the byte `offset` of the contents: sought in a plain file, unpacked and dropped in an
// archive. Named .gz or .zst a file must be that archive; otherwise its first bytes decide.
std::unique_ptr<ByteStream> open_bytes(const std::filesystem::path& path, int64_t offset = 0);

}  // namespace hydramix
