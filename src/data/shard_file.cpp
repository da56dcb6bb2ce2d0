// SPDX-License-Identifier: Apache-2.0
#include "data/shard_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/crc32c.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

struct Header {
  std::array<char, 8> magic = {'H', 'M', 'T', 'O', 'K', 'E', 'N', 'S'};
  uint32_t version = 2;
  uint32_t id_bytes = 0;
};
static_assert(sizeof(Header) == 16);

constexpr std::array<char, 8> kPadding = {};
constexpr int64_t kPartBytes = 1 << 16;

int64_t padding(int64_t bytes) { return (8 - bytes % 8) % 8; }

// All of a shard but the table of checksums.
int64_t body_bytes(const ShardInfo& info, int64_t id_bytes) {
  const int64_t ids = info.tokens * id_bytes;
  return static_cast<int64_t>(sizeof(Header)) + ids + padding(ids) + 8 * info.documents;
}

int64_t part_count(int64_t body) { return (body + kPartBytes - 1) / kPartBytes; }

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span<const T>(values));
}

template <class Id>
int64_t largest(const std::byte* ids, int64_t count) {
  const auto* first = reinterpret_cast<const Id*>(ids);  // aligned: the header has 16 bytes
  return count == 0 ? 0 : static_cast<int64_t>(*std::max_element(first, first + count));
}

template <class Id>
void append(const std::byte* ids, int64_t count, std::vector<int32_t>& out) {
  const auto* first = reinterpret_cast<const Id*>(ids);
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<int32_t>(first[i]));
}

}  // namespace

int64_t shard_bytes(const ShardInfo& info, int64_t id_bytes) {
  const int64_t body = body_bytes(info, id_bytes);
  return info.layout == 1 ? body : body + 4 * part_count(body);
}

std::vector<uint32_t> shard_checksums(std::span<const std::byte> body) {
  std::vector<uint32_t> sums;
  for (std::size_t at = 0; at < body.size(); at += kPartBytes)
    sums.push_back(crc32c(body.subspan(at, std::min<std::size_t>(kPartBytes, body.size() - at))));
  return sums;
}

ShardWriter::ShardWriter(const std::filesystem::path& folder, std::string name, int64_t id_bytes)
    : file_(folder / name), id_bytes_(id_bytes) {
  info_.file = std::move(name);
  Header header;
  header.id_bytes = static_cast<uint32_t>(id_bytes);
  write(&header, sizeof header);
}

void ShardWriter::write(const void* data, std::size_t size) {
  file_.write(data, size);
  std::span rest(static_cast<const std::byte*>(data), size);
  while (!rest.empty()) {
    const int64_t filled = info_.bytes % kPartBytes;
    if (filled == 0) sums_.push_back(0);
    const auto taken = std::min(rest.size(), static_cast<std::size_t>(kPartBytes - filled));
    sums_.back() = crc32c(rest.first(taken), sums_.back());
    info_.bytes += static_cast<int64_t>(taken);
    rest = rest.subspan(taken);
  }
}

void ShardWriter::add(std::span<const int32_t> ids) {
  if (id_bytes_ == 2) {
    narrow_.assign(ids.begin(), ids.end());
    write(narrow_.data(), ids.size() * 2);
  } else {
    write(ids.data(), ids.size() * 4);
  }
  info_.tokens += std::ssize(ids);
  ++info_.documents;
  ends_.push_back(static_cast<uint64_t>(info_.tokens));
}

ShardInfo ShardWriter::commit() {
  write(kPadding.data(), static_cast<std::size_t>(padding(info_.tokens * id_bytes_)));
  write(ends_.data(), ends_.size() * sizeof(uint64_t));
  const auto table = bytes_of(sums_);
  file_.write(table.data(), table.size());
  info_.bytes += std::ssize(table);
  info_.checksum = crc32c(table);
  file_.commit();
  return info_;
}

ShardReader::ShardReader(const std::filesystem::path& folder, const ShardInfo& info,
                         int64_t id_bytes, int64_t vocabulary)
    : path_(folder / info.file), info_(info), id_bytes_(id_bytes), vocabulary_(vocabulary) {
  if (!std::filesystem::exists(path_)) fail("is missing");
  file_ = std::make_unique<MappedFile>(path_);
  const auto bytes = file_->bytes();
  if (std::ssize(bytes) != info_.bytes)
    fail(concat("has ", bytes.size(), " bytes, expected ", info_.bytes));
  const Header expected;
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);  // info.bytes is at least the header's
  if (header.magic != expected.magic) fail("is no file of tokens: it does not begin with HMTOKENS");
  if (header.version != static_cast<uint32_t>(info_.layout))
    fail(concat("has layout version ", header.version, ", the index says ", info_.layout));
  if (header.id_bytes != static_cast<uint32_t>(id_bytes_))
    fail(concat("has ids of ", header.id_bytes, " bytes, the index says ", id_bytes_));
  const int64_t body = body_bytes(info_, id_bytes_);
  ids_ = bytes.data() + sizeof header;
  ends_ = bytes.data() + body - 8 * info_.documents;
  if (info_.layout == 1) {
    part_bytes_ = body;
    sums_ = {info_.checksum};
  } else {
    const auto table = bytes.subspan(static_cast<std::size_t>(body));
    if (crc32c(table) != info_.checksum)
      fail(concat("the checksum of its checksums is ", checksum_text(crc32c(table)),
                  ", the index has ", checksum_text(info_.checksum)));
    part_bytes_ = kPartBytes;
    sums_.resize(table.size() / 4);
    std::memcpy(sums_.data(), table.data(), table.size());
  }
  sound_ = std::make_unique<std::atomic<bool>[]>(sums_.size());
  if (info_.documents > 0 && end_of(info_.documents - 1) != static_cast<uint64_t>(info_.tokens))
    fail(concat("its last document ends at token ", end_of(info_.documents - 1), ", expected ",
                info_.tokens));
}

void ShardReader::check_parts(const std::byte* begin, const std::byte* end) const {
  if (begin == end) return;
  const std::byte* start = file_->bytes().data();
  for (int64_t part = (begin - start) / part_bytes_; part <= (end - 1 - start) / part_bytes_;
       ++part)
    // Threads that race here check a part twice.
    if (!sound_[static_cast<std::size_t>(part)].load(std::memory_order_relaxed)) check_part(part);
}

void ShardReader::check_part(int64_t part) const {
  const int64_t begin = part * part_bytes_;
  const int64_t size = std::min(part_bytes_, body_bytes(info_, id_bytes_) - begin);
  const auto bytes =
      file_->bytes().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
  const auto at = static_cast<std::size_t>(part);
  const uint32_t sum = info_.layout == 1
                           ? static_cast<uint32_t>(crc32_z(
                                 0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()))
                           : crc32c(bytes);
  if (sum != sums_[at])
    fail(concat("the checksum of the ", size, " bytes at ", begin, " is ", checksum_text(sum),
                ", expected ", checksum_text(sums_[at])));
  sound_[at].store(true, std::memory_order_relaxed);
}

uint64_t ShardReader::end_of(int64_t document) const {
  uint64_t end;
  std::memcpy(&end, ends_ + 8 * document, 8);
  return end;
}

void ShardReader::fail(const std::string& what) const {
  throw Error(concat(path_.string(), ": ", what,
                     ". The data set is damaged: copy this file again from where it was made, or "
                     "make the data set again (hydramix tokenize ... --overwrite)."));
}

ShardReader::Range ShardReader::range(int64_t document) const {
  check_parts(ends_ + 8 * std::max<int64_t>(document - 1, 0), ends_ + 8 * (document + 1));
  const uint64_t begin = document > 0 ? end_of(document - 1) : 0, end = end_of(document);
  if (begin > end || end > static_cast<uint64_t>(info_.tokens))
    fail(concat("document ", document, " goes from token ", begin, " to ", end, " of ",
                info_.tokens));
  return {static_cast<int64_t>(begin), static_cast<int64_t>(end)};
}

int64_t ShardReader::length(int64_t document) const {
  const auto [begin, end] = range(document);
  return end - begin;
}

void ShardReader::read(int64_t document, std::vector<int32_t>& ids) const {
  const auto [begin, end] = range(document);
  const std::byte* first = ids_ + begin * id_bytes_;
  const int64_t count = end - begin;
  check_parts(first, first + count * id_bytes_);
  const int64_t top =
      id_bytes_ == 2 ? largest<uint16_t>(first, count) : largest<uint32_t>(first, count);
  if (top >= vocabulary_)
    fail(concat("document ", document, " has the id ", top, ", the vocabulary ", vocabulary_,
                " tokens"));
  if (id_bytes_ == 2)
    append<uint16_t>(first, count, ids);
  else
    append<uint32_t>(first, count, ids);
}

void ShardReader::verify() const {
  for (int64_t part = 0; part < std::ssize(sums_); ++part) check_part(part);
  std::vector<int32_t> ids;
  for (int64_t document = 0; document < info_.documents; ++document) {
    ids.clear();
    read(document, ids);
  }
}

}  // namespace hydramix
