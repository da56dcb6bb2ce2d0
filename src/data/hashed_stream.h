// SPDX-License-Identifier: Apache-2.0
// Hashes the bytes that pass through a stream.
#pragma once

#include <memory>
#include <utility>

#include "base/fnv.h"
#include "data/byte_stream.h"

namespace hydramix {

class HashedStream : public ByteStream {
 public:
  // `hash` must outlive the stream; it starts as kFnvStart.
  HashedStream(std::unique_ptr<ByteStream> stream, uint64_t& hash)
      : stream_(std::move(stream)), hash_(hash) {}
  std::size_t read(char* buffer, std::size_t size) override {
    const std::size_t count = stream_->read(buffer, size);
    hash_ = fnv1a({buffer, count}, hash_);
    return count;
  }
  int64_t consumed() const override { return stream_->consumed(); }

 private:
  std::unique_ptr<ByteStream> stream_;
  uint64_t& hash_;
};

}  // namespace hydramix
