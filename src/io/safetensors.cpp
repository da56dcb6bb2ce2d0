// SPDX-License-Identifier: Apache-2.0
// The reader: length, header, then the layout. Sorted by offset, the tensors must tile the data
// section exactly, each starting where the last one ended; this rule excludes overlaps, gaps and
// stray bytes, and thus the usual ways to hide data in a weights file.
#include "hydramix/safetensors.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "base/quotes.h"
#include "base/spelling.h"
#include "hydramix/error.h"
#include "io/mapped_file.h"
#include "io/safetensors_checksums.h"
#include "io/safetensors_header.h"

namespace hydramix::safetensors {

static_assert(std::endian::native == std::endian::little,
              "tensor data is handed out as stored, which is little-endian");

namespace {

std::string_view header_text(std::span<const std::byte> bytes, const std::string& origin) {
  HYDRAMIX_CHECK(!bytes.empty(), origin, ": is empty, expected a safetensors file.");
  HYDRAMIX_CHECK(bytes.size() >= kLengthBytes, origin, ": has only ", bytes.size(),
                 " bytes; a safetensors file has at least 8, the length of its header. It was cut "
                 "short or is no safetensors file.");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  HYDRAMIX_CHECK(length > 0, origin, ": the header length is 0; an empty header is \"{}\".",
                 kDamaged);
  HYDRAMIX_CHECK(length <= kMaxHeaderBytes, origin, ": the header length ", length,
                 " is over the limit of ", kMaxHeaderBytes,
                 ". This is no safetensors file: a pickled .pt or .bin file and a Git LFS pointer "
                 "are the usual mix-ups.");
  HYDRAMIX_CHECK(length <= bytes.size() - kLengthBytes, origin, ": the header length ", length,
                 " is more than the ", bytes.size() - kLengthBytes,
                 " bytes that follow it. The file was cut short: fetch or export it again.");
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
          static_cast<std::size_t>(length)};
}

// One tensor against its own shape and the size of the data section.
void check_extent(const HeaderEntry& entry, std::uint64_t data_size, const std::string& origin) {
  const auto tensor = [&] { return concat(origin, ": tensor ", in_quotes(entry.name)); };
  const auto offsets = [&] { return concat("data_offsets [", entry.begin, ", ", entry.end, "]"); };
  HYDRAMIX_CHECK(entry.begin <= entry.end, tensor(), ": ", offsets(), " end before they begin.",
                 kDamaged);
  HYDRAMIX_CHECK(entry.end <= data_size, tensor(), ": ", offsets(), " reach beyond the ", data_size,
                 " bytes of data. The file was cut short or is damaged: fetch or export it again.");
  const auto size = byte_size(entry.dtype, entry.shape);
  HYDRAMIX_CHECK(size.has_value(), tensor(), ": the size of ", dtype_name(entry.dtype), " ",
                 shape_text(entry.shape), " overflows 63 bits.", kDamaged);
  HYDRAMIX_CHECK(*size == entry.end - entry.begin, tensor(), ": ", dtype_name(entry.dtype), " ",
                 shape_text(entry.shape), " takes ", *size, " bytes, but ", offsets(), " span ",
                 entry.end - entry.begin, ".", kDamaged);
}

// All tensors against each other: sorted, they tile the data from the first byte to the last.
void check_tiling(const std::vector<HeaderEntry>& sorted, std::uint64_t data_size,
                  const std::string& origin) {
  std::uint64_t covered = 0;
  for (const auto& entry : sorted) {
    HYDRAMIX_CHECK(entry.begin >= covered, origin, ": tensor ", in_quotes(entry.name),
                   " begins at ", entry.begin, " and overlaps the one before it, which ends at ",
                   covered, ".", kDamaged);
    HYDRAMIX_CHECK(entry.begin == covered, origin, ": bytes ", covered, " to ", entry.begin,
                   " before tensor ", in_quotes(entry.name), " are a hole that no tensor covers.",
                   kDamaged);
    covered = entry.end;
  }
  HYDRAMIX_CHECK(covered == data_size, origin, ": ", data_size - covered,
                 " bytes follow the last tensor, expected none.", kDamaged);
}

}  // namespace

struct File::Contents {
  Contents(std::unique_ptr<const MappedFile> file, std::span<const std::byte> bytes,
           std::string file_origin)
      : mapping(std::move(file)), origin(std::move(file_origin)) {
    const std::string_view text = header_text(bytes, origin);
    const auto data = bytes.subspan(kLengthBytes + text.size());
    Header header = parse_header(text, origin);
    for (const auto& entry : header.tensors) check_extent(entry, data.size(), origin);
    // Sorted by end too: an empty tensor precedes one at the same offset.
    std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    check_tiling(header.tensors, data.size(), origin);

    metadata = std::move(header.metadata);
    tensors.reserve(header.tensors.size());
    for (auto& entry : header.tensors) {
      const auto begin = static_cast<std::size_t>(entry.begin);
      const auto size = static_cast<std::size_t>(entry.end - entry.begin);
      tensors.push_back(
          {std::move(entry.name), entry.dtype, std::move(entry.shape), data.subspan(begin, size)});
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) index.emplace(tensors[i].name, i);
    has_checksums = take_checksums(metadata, tensors, origin);
  }

  std::unique_ptr<const MappedFile> mapping;  // nullptr over the caller's memory
  std::string origin;
  std::vector<TensorView> tensors;
  std::map<std::string_view, std::size_t> index;  // keys point into `tensors`
  Metadata metadata;
  bool has_checksums = false;
};

File::File(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}

File File::open(const std::filesystem::path& path) {
  auto mapping = std::make_unique<const MappedFile>(path);
  const auto bytes = mapping->bytes();
  return File(std::make_shared<const Contents>(std::move(mapping), bytes, path.string()));
}

File File::parse(std::span<const std::byte> bytes, std::string origin) {
  return File(std::make_shared<const Contents>(nullptr, bytes, std::move(origin)));
}

const std::vector<TensorView>& File::tensors() const { return contents_->tensors; }
const Metadata& File::metadata() const { return contents_->metadata; }
bool File::has_checksums() const { return contents_->has_checksums; }
std::shared_ptr<const void> File::storage() const { return contents_; }

const TensorView* File::find(std::string_view name) const {
  const auto found = contents_->index.find(name);
  return found == contents_->index.end() ? nullptr : &contents_->tensors[found->second];
}

const TensorView& File::at(std::string_view name) const {
  if (const TensorView* tensor = find(name)) return *tensor;
  // An edit distance costs the product of both lengths, and the file chooses one of them.
  constexpr std::size_t kLongestCompared = 256;
  std::vector<std::string> known;
  for (const auto& tensor : tensors())
    if (tensor.name.size() <= kLongestCompared) known.push_back(tensor.name);
  throw Error(concat(contents_->origin, ": has no tensor ", in_quotes(name), " among its ",
                     tensors().size(), ".", did_you_mean(name.substr(0, kLongestCompared), known)));
}

}  // namespace hydramix::safetensors
