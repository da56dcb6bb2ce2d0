// SPDX-License-Identifier: Apache-2.0
#include "io/torch_archive.h"

#include <bit>
#include <deque>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_reader.h"
#include "base/quotes.h"
#include "hydramix/error.h"
#include "io/byte_cursor.h"
#include "io/mapped_file.h"
#include "io/pickle.h"
#include "io/state_dict.h"
#include "io/torch_tensors.h"
#include "io/torch_types.h"
#include "io/zip_archive.h"

namespace hydramix::torch_archive {

static_assert(std::endian::native == std::endian::little,
              "tensor data is handed out as stored, which is little-endian");

namespace {

constexpr std::string_view kPickle = "data.pkl";

// Tensors may share storages and have strides of 0, so that together they can be larger than the
// file. The total is limited, so that a small file cannot exhaust memory or disk.
std::size_t max_tensor_bytes(std::size_t file_size) {
  constexpr std::size_t kFloor = std::size_t{1} << 24, kTimes = 8;
  return kFloor + kTimes * file_size;
}

void check_format(std::span<const std::byte> bytes, const std::string& origin) {
  const std::string_view text = as_text(bytes);
  HYDRAMIX_CHECK(!text.empty(), origin, ": is empty, expected a PyTorch checkpoint.");
  const std::string resave =
      " Save it again with PyTorch 1.6 or later: torch.save(torch.load(\"old.pt\"), \"new.pt\").";
  // In the old format a magic number follows the protocol.
  const bool before_zip = text[0] == '\x80' && text.find("\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19") == 2;
  HYDRAMIX_CHECK(!before_zip, origin,
                 ": is in the format of PyTorch before 1.6, which is not read here.", resave);
  HYDRAMIX_CHECK(text[0] != '\x80', origin,
                 ": is a bare pickle, expected the zip archive that torch.save writes.", resave);
  HYDRAMIX_CHECK(is_zip(bytes), origin,
                 ": is no PyTorch checkpoint: it does not begin as a zip archive does. A Git LFS "
                 "pointer and an error page saved in place of the file are the usual mix-ups.");
}

Metadata parse_metadata(std::span<const std::byte> bytes, const std::string& origin) {
  const auto json = try_parse_json<nlohmann::json>(as_text(bytes));
  const auto refuse = [&] {
    return Error(
        concat(origin, ": ", kMetadataEntry,
               " is not a JSON object of strings. The file is damaged: convert it again."));
  };
  if (!json.is_object()) throw refuse();
  Metadata metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) throw refuse();
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

}  // namespace

struct File::Contents {
  Contents(std::unique_ptr<const MappedFile> file, std::span<const std::byte> bytes,
           const std::string& origin, Selection selection)
      : mapping(std::move(file)) {
    check_format(bytes, origin);
    const auto entries = read_zip(bytes, origin);
    const std::string_view prefix = prefix_of(entries, origin);
    TensorReader::Storages storages;
    std::span<const std::byte> program;
    for (const auto& entry : entries) {
      if (!entry.name.starts_with(prefix)) continue;
      const std::string_view name = entry.name.substr(prefix.size());
      // Only TorchScript source code may be compressed.
      if (name.starts_with("code/")) continue;
      HYDRAMIX_CHECK(!entry.compressed, origin, ": its entry ", in_quotes(entry.name),
                     " is compressed, but PyTorch stores tensors as they are. Was it packed by "
                     "another program? Unpack it, or save it again with torch.save.");
      if (name == kPickle) program = entry.data;
      if (name == kMetadataEntry) metadata = parse_metadata(entry.data, origin);
      if (name.starts_with("data/")) storages.emplace(name.substr(5), entry.data);
      HYDRAMIX_CHECK(name != "byteorder" || as_text(entry.data) == "little", origin,
                     ": its numbers are ", in_quotes(as_text(entry.data)),
                     "-endian, expected \"little\". Save it again on an ordinary machine.");
    }
    const auto document = pickle::Document::parse(program, concat(origin, ": ", kPickle));
    TensorReader reader(document, storages, max_tensor_bytes(bytes.size()), origin);
    auto state = find_tensors(document, reader, selection, origin);
    notes = std::move(state.notes);
    for (auto& tensor : state.tensors)
      tensors.push_back(reader.read(tensor.id, std::move(tensor.name), copies));
  }

  // "archive/", the folder that all entries are in.
  static std::string_view prefix_of(const std::vector<ZipEntry>& entries,
                                    const std::string& origin) {
    std::string_view prefix;
    for (const auto& entry : entries) {
      const std::size_t slash = entry.name.find('/');
      if (slash == std::string_view::npos || entry.name.substr(slash + 1) != kPickle) continue;
      HYDRAMIX_CHECK(prefix.empty(), origin, ": holds two checkpoints, ", in_quotes(prefix),
                     " and ", in_quotes(entry.name), ". Unpack it.");
      prefix = entry.name.substr(0, slash + 1);
    }
    HYDRAMIX_CHECK(!prefix.empty(), origin,
                   ": is a zip archive without data.pkl, so no PyTorch checkpoint. If it holds "
                   "one, unpack it first.");
    return prefix;
  }

  std::unique_ptr<const MappedFile> mapping;  // nullptr over the caller's memory
  std::deque<std::vector<std::byte>> copies;  // row-major copies of strided tensors
  std::vector<TensorView> tensors;
  Metadata metadata;
  std::vector<std::string> notes;
};

File::File(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}

File File::open(const std::filesystem::path& path, Selection selection) {
  auto mapping = std::make_unique<const MappedFile>(path);
  const auto bytes = mapping->bytes();
  return File(
      std::make_shared<const Contents>(std::move(mapping), bytes, path.string(), selection));
}

File File::parse(std::span<const std::byte> bytes, const std::string& origin, Selection selection) {
  return File(std::make_shared<const Contents>(nullptr, bytes, origin, selection));
}

const std::vector<TensorView>& File::tensors() const { return contents_->tensors; }
const Metadata& File::metadata() const { return contents_->metadata; }
const std::vector<std::string>& File::notes() const { return contents_->notes; }
std::shared_ptr<const void> File::storage() const { return contents_; }

}  // namespace hydramix::torch_archive
