// SPDX-License-Identifier: Apache-2.0
#include "data/shard_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "hydramix/error.h"

namespace hydramix {
namespace {

struct Header {
  std::array<char, 8> magic = {'H', 'M', 'T', 'O', 'K', 'E', 'N', 'S'};
  uint32_t version = 1;
  uint32_t id_bytes = 0;
};
static_assert(sizeof(Header) == 16);

constexpr std::array<char, 8> kPadding = {};

int64_t padding(int64_t bytes) { return (8 - bytes % 8) % 8; }

uint32_t checksum(uint32_t so_far, const void* data, std::size_t size) {
  if (size == 0) return so_far;  // zlib would restart the checksum at a null pointer
  return static_cast<uint32_t>(crc32_z(so_far, static_cast<const Bytef*>(data), size));
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

int64_t shard_bytes(int64_t tokens, int64_t documents, int64_t id_bytes) {
  const int64_t ids = tokens * id_bytes;
  return static_cast<int64_t>(sizeof(Header)) + ids + padding(ids) + 8 * documents;
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
  info_.crc32 = checksum(info_.crc32, data, size);
  info_.bytes += static_cast<int64_t>(size);
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
  if (header.version != expected.version)
    fail(concat("has layout version ", header.version, ", expected ", expected.version));
  if (header.id_bytes != static_cast<uint32_t>(id_bytes_))
    fail(concat("has ids of ", header.id_bytes, " bytes, the index says ", id_bytes_));
  ids_ = bytes.data() + sizeof header;
  ends_ = bytes.data() + bytes.size() - 8 * info_.documents;
  if (info_.documents > 0 && range(info_.documents - 1).end != info_.tokens)
    fail(concat("its last document ends at token ", range(info_.documents - 1).end, ", expected ",
                info_.tokens));
}

void ShardReader::fail(const std::string& what) const {
  throw Error(concat(path_.string(), ": ", what,
                     ". The data set is damaged: copy this file again from where it was made, or "
                     "make the data set again (hydramix tokenize ... --overwrite)."));
}

ShardReader::Range ShardReader::range(int64_t document) const {
  uint64_t begin = 0, end;
  if (document > 0) std::memcpy(&begin, ends_ + 8 * (document - 1), 8);
  std::memcpy(&end, ends_ + 8 * document, 8);
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
  const auto bytes = file_->bytes();
  const uint32_t found = checksum(0, bytes.data(), bytes.size());
  if (found != info_.crc32)
    fail(concat("its checksum is ", std::hex, found, ", the index has ", info_.crc32));
  std::vector<int32_t> ids;
  for (int64_t document = 0; document < info_.documents; ++document) {
    ids.clear();
    read(document, ids);
  }
}

}  // namespace hydramix
