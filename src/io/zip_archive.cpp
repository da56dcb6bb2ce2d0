// SPDX-License-Identifier: Apache-2.0
#include "io/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <set>

#include "base/crc32c.h"
#include "base/quotes.h"
#include "hydramix/error.h"
#include "io/byte_cursor.h"
#include "io/zip_format.h"

namespace hydramix {
namespace {

using namespace zip_format;

constexpr std::string_view kDamaged =
    " The file was cut short or is damaged: fetch or save it again.";

struct Directory {
  std::uint64_t count, begin, size;
};

// The end record is 22 bytes and a comment that reaches to the end of the file.
std::size_t find_end_record(std::span<const std::byte> bytes, const std::string& origin) {
  HYDRAMIX_CHECK(bytes.size() >= kEndSize, origin, ": has only ", bytes.size(),
                 " bytes, too few for a zip archive.", kDamaged);
  const std::size_t last = bytes.size() - kEndSize;
  const std::size_t first = last > kLongestComment ? last - kLongestComment : 0;
  for (std::size_t at = last + 1; at-- > first;) {
    ByteCursor cursor(bytes, origin, at);
    if (cursor.u32() != kEndSignature) continue;
    cursor.skip(16);
    if (cursor.u16() == last - at) return at;
  }
  throw Error(
      concat(origin, ": the directory at the end of the zip archive is missing.", kDamaged));
}

Directory find_directory(std::span<const std::byte> bytes, const std::string& origin) {
  const std::size_t end = find_end_record(bytes, origin);
  ByteCursor cursor(bytes, origin, end + 4);
  const std::uint16_t disk = cursor.u16(), directory_disk = cursor.u16();
  cursor.skip(2);
  Directory directory{};
  directory.count = cursor.u16();
  directory.size = cursor.u32();
  directory.begin = cursor.u32();
  HYDRAMIX_CHECK((disk == 0 || disk == kMax16) && disk == directory_disk, origin,
                 ": is one part of a zip archive split over several files. Join them first.");
  std::uint64_t limit = end;
  if (end >= kLocatorSize) {
    ByteCursor locator(bytes, origin, end - kLocatorSize);
    if (locator.u32() == kLocatorSignature) {
      locator.skip(4);
      const std::uint64_t at = locator.u64();
      HYDRAMIX_CHECK(at < end, origin, ": the zip64 record is said to be at ", at, ", beyond ", end,
                     ".", kDamaged);
      ByteCursor record(bytes, origin, static_cast<std::size_t>(at));
      HYDRAMIX_CHECK(record.u32() == kEnd64Signature, origin, ": there is no zip64 record at ", at,
                     ".", kDamaged);
      record.skip(28);
      directory.count = record.u64();
      directory.size = record.u64();
      directory.begin = record.u64();
      limit = at;
    }
  }
  HYDRAMIX_CHECK(directory.begin <= limit && directory.size <= limit - directory.begin, origin,
                 ": the zip directory of ", directory.size, " bytes at ", directory.begin,
                 " reaches beyond ", limit, ".", kDamaged);
  HYDRAMIX_CHECK(directory.count <= directory.size / kCentralSize, origin,
                 ": the zip directory of ", directory.size, " bytes cannot hold ", directory.count,
                 " entries.", kDamaged);
  return directory;
}

struct Sizes {
  std::uint64_t whole, stored, offset;
};

// Numbers that did not fit 32 bits are in an extra field, in this order.
void apply_zip64(Sizes& sizes, std::span<const std::byte> extra, const std::string& origin) {
  ByteCursor cursor(extra, origin);
  while (cursor.left() >= 4) {
    const std::uint16_t id = cursor.u16();
    const auto field = cursor.take(cursor.u16());
    if (id != kZip64Field) continue;
    ByteCursor numbers(field, origin);
    for (std::uint64_t* number : {&sizes.whole, &sizes.stored, &sizes.offset})
      if (*number == kMax32) *number = numbers.u64();
    return;
  }
}

ZipEntry read_entry(ByteCursor& cursor, std::span<const std::byte> bytes, std::uint64_t data_end,
                    bool check_sum, const std::string& origin) {
  HYDRAMIX_CHECK(cursor.u32() == kCentralSignature, origin,
                 ": an entry of the zip directory does not begin as one.", kDamaged);
  cursor.skip(4);
  const std::uint16_t flags = cursor.u16(), method = cursor.u16();
  cursor.skip(4);
  const std::uint32_t sum = cursor.u32();
  Sizes sizes{};
  sizes.stored = cursor.u32();
  sizes.whole = cursor.u32();
  const std::uint16_t name_size = cursor.u16(), extra_size = cursor.u16(),
                      comment_size = cursor.u16();
  cursor.skip(8);
  sizes.offset = cursor.u32();
  const std::string_view name = as_text(cursor.take(name_size));
  apply_zip64(sizes, cursor.take(extra_size), origin);
  cursor.skip(comment_size);

  const auto entry = [&] { return concat(origin, ": zip entry ", in_quotes(name)); };
  HYDRAMIX_CHECK((flags & kEncrypted) == 0, entry(), " is encrypted. Decrypt the archive first.");
  HYDRAMIX_CHECK(method != kStored || sizes.stored == sizes.whole, entry(),
                 " is stored as it is, but in ", sizes.stored, " bytes instead of ", sizes.whole,
                 ".", kDamaged);
  HYDRAMIX_CHECK(sizes.offset <= data_end, entry(), " is said to be at ", sizes.offset,
                 ", beyond the ", data_end, " bytes of data.", kDamaged);
  ByteCursor local(bytes.first(static_cast<std::size_t>(data_end)), origin,
                   static_cast<std::size_t>(sizes.offset));
  HYDRAMIX_CHECK(local.u32() == kLocalSignature, entry(), ": there is no entry at ", sizes.offset,
                 ".", kDamaged);
  local.skip(22);
  const std::uint16_t local_name_size = local.u16(), local_extra_size = local.u16();
  HYDRAMIX_CHECK(as_text(local.take(local_name_size)) == name, entry(),
                 " has another name in its own header.", kDamaged);
  local.skip(local_extra_size);
  ZipEntry found{name, local.take(sizes.stored), method != kStored};
  if (check_sum && !found.compressed && sum != 0) {
    const auto actual =
        crc32_z(0, reinterpret_cast<const Bytef*>(found.data.data()), found.data.size());
    HYDRAMIX_CHECK(actual == sum, entry(), ": the checksum of its ", found.data.size(),
                   " bytes is ", checksum_text(static_cast<std::uint32_t>(actual)),
                   ", the archive records ", checksum_text(sum), ".", kDamaged);
    found.checked = true;
  }
  return found;
}

// Checks the checksum of a whole archive that we wrote; false for other archives. Either half of
// the comment identifies it, so that damage to the comment cannot hide it.
bool check_whole(std::span<const std::byte> bytes, const std::string& origin) {
  const std::size_t size = kSumComment.size() + 8, half = kSumComment.size() / 2;
  const std::string_view text = as_text(bytes);
  if (text.size() < kEndSize + size) return false;
  const std::string_view comment = text.substr(text.size() - size, kSumComment.size());
  if (comment.substr(0, half) != kSumComment.substr(0, half) &&
      comment.substr(half) != kSumComment.substr(half))
    return false;
  const std::string sum = checksum_text(crc32c(bytes.first(bytes.size() - 8)));
  const std::string_view recorded = text.substr(text.size() - 8);
  HYDRAMIX_CHECK(sum == recorded, origin, ": the checksum of the archive is ", sum, ", it records ",
                 in_quotes(recorded), ".", kDamaged);
  return true;
}

void check_no_overlap(std::vector<ZipEntry> entries, const std::string& origin) {
  std::set<std::string_view> names;
  for (const auto& entry : entries)
    HYDRAMIX_CHECK(names.insert(entry.name).second, origin, ": zip entry ", in_quotes(entry.name),
                   " occurs twice.", kDamaged);
  // Sorted by end too: an empty entry precedes one at the same offset.
  std::sort(entries.begin(), entries.end(), [](const ZipEntry& a, const ZipEntry& b) {
    return a.data.data() != b.data.data() ? a.data.data() < b.data.data()
                                          : a.data.size() < b.data.size();
  });
  for (std::size_t i = 1; i < entries.size(); ++i)
    HYDRAMIX_CHECK(
        entries[i - 1].data.data() + entries[i - 1].data.size() <= entries[i].data.data(), origin,
        ": the zip entries ", in_quotes(entries[i - 1].name), " and ", in_quotes(entries[i].name),
        " overlap.", kDamaged);
}

}  // namespace

bool is_zip(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  return text.starts_with("PK\3\4") || text.starts_with("PK\5\6");
}

std::vector<ZipEntry> read_zip(std::span<const std::byte> bytes, const std::string& origin) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION  // a fuzzer would not get past checksums
  const bool whole = true;
#else
  const bool whole = check_whole(bytes, origin);
#endif
  const Directory directory = find_directory(bytes, origin);
  const auto listed = bytes.subspan(static_cast<std::size_t>(directory.begin),
                                    static_cast<std::size_t>(directory.size));
  ByteCursor cursor(listed, origin);
  std::vector<ZipEntry> entries;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    entries.push_back(read_entry(cursor, bytes, directory.begin, !whole, origin));
    entries.back().checked |= whole;
  }
  HYDRAMIX_CHECK(cursor.left() == 0, origin, ": ", cursor.left(),
                 " bytes follow the last entry of the zip directory.", kDamaged);
  check_no_overlap(entries, origin);
  return entries;
}

}  // namespace hydramix
