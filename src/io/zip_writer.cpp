// SPDX-License-Identifier: Apache-2.0
// Writes entries in sequence, each padded by an extra field so that its data is aligned, as PyTorch
// does. The directory is collected in memory and written at the end.
#include <zlib.h>

#include "base/crc32c.h"
#include "base/quotes.h"
#include "hydramix/error.h"
#include "io/zip_archive.h"
#include "io/zip_format.h"

namespace hydramix {
namespace {

using namespace zip_format;

class Record {
 public:
  Record& u16(std::uint64_t number) { return little_endian(number, 2); }
  Record& u32(std::uint64_t number) { return little_endian(number, 4); }
  Record& u64(std::uint64_t number) { return little_endian(number, 8); }
  Record& text(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& little_endian(std::uint64_t number, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(number >> (8 * i));
    return *this;
  }

  std::string bytes_;
};

std::uint32_t checksum(std::span<const std::byte> data) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size()));
}

}  // namespace

void ZipWriter::write(std::string_view bytes) {
  file_.write(bytes);
  position_ += bytes.size();
  sum_ = crc32c(bytes, sum_);
}

void ZipWriter::add(std::string_view name, std::span<const std::byte> data) {
  HYDRAMIX_CHECK(name.size() <= kMax16, "zip: the name ", in_quotes(name), " has ", name.size(),
                 " bytes, more than 65535. Shorten it.");
  const std::uint64_t offset = position_;
  const bool large_size = data.size() > largest_small_, large_offset = offset > largest_small_;
  const auto version = large_size || large_offset ? kVersionZip64 : kVersionPlain;
  const std::uint64_t shown_size = large_size ? kMax32 : data.size();
  // The fields common to the local and the central header.
  Record common;
  common.u16(version).u16(kUtf8Names).u16(kStored).u16(0).u16(kFirstDay);
  common.u32(checksum(data)).u32(shown_size).u32(shown_size).u16(name.size());

  Record extra;
  if (large_size) extra.u16(kZip64Field).u16(16).u64(data.size()).u64(data.size());
  const std::uint64_t unpadded = offset + kLocalSize + name.size() + extra.bytes().size() + 4;
  const std::uint64_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  extra.u16(kPaddingField).u16(padding).text(std::string(padding, 'Z'));
  write(Record().u32(kLocalSignature).text(common.bytes()).u16(extra.bytes().size()).bytes());
  write(name);
  write(extra.bytes());
  write({reinterpret_cast<const char*>(data.data()), data.size()});

  Record numbers, field;
  if (large_size) numbers.u64(data.size()).u64(data.size());
  if (large_offset) numbers.u64(offset);
  if (large_size || large_offset)
    field.u16(kZip64Field).u16(numbers.bytes().size()).text(numbers.bytes());
  Record central;
  central.u32(kCentralSignature).u16(version).text(common.bytes());
  central.u16(field.bytes().size()).u16(0).u16(0).u16(0).u32(0);  // comment, disk, attributes
  central.u32(large_offset ? kMax32 : offset).text(name).text(field.bytes());
  directory_ += central.bytes();
  ++count_;
}

void ZipWriter::finish() {
  const std::uint64_t begin = position_, size = directory_.size();
  write(directory_);
  const bool large = begin > largest_small_ || size > largest_small_ || count_ >= kMax16;
  if (large) {
    const std::uint64_t end64 = position_;
    Record record;
    record.u32(kEnd64Signature).u64(kEnd64Size - 12).u16(kVersionZip64).u16(kVersionZip64);
    record.u32(0).u32(0).u64(count_).u64(count_).u64(size).u64(begin);
    record.u32(kLocatorSignature).u32(0).u64(end64).u32(1);
    write(record.bytes());
  }
  Record end;
  end.u32(kEndSignature).u16(0).u16(0);
  end.u16(large ? kMax16 : count_).u16(large ? kMax16 : count_);
  end.u32(large ? kMax32 : size).u32(large ? kMax32 : begin);
  end.u16(kSumComment.size() + 8).text(kSumComment);
  write(end.bytes());
  write(checksum_text(sum_));
}

}  // namespace hydramix
