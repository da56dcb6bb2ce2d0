// SPDX-License-Identifier: Apache-2.0
// Reads a whole file into memory. Never truncates silently: a failing disk, a file that shrinks
// or changes while it is read, a pipe, a device, a folder and a file above the limit of its kind
// are Errors. Memory is allocated only after the size was checked.
//
// This, data/byte_stream (text as a stream) and io/mapped_file (weights and token shards) are the
// only places that open files for reading.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace hydramix {

// A kind of file that is read whole.
struct FileKind {
  std::string_view name;  // for messages: "a recipe"
  int64_t limit;          // in bytes, far above any sensible file of the kind
  bool grows = false;     // a running process may append: what is there at first is read
};

inline constexpr FileKind kRecipeFile{"a recipe", int64_t{1} << 20};
inline constexpr FileKind kConfigFile{"a config", int64_t{16} << 20};
inline constexpr FileKind kResultFile{"a file of results", int64_t{64} << 20};
inline constexpr FileKind kTokenizerFile{"a tokenizer", int64_t{256} << 20};
inline constexpr FileKind kIndexFile{"the index of a data set", int64_t{256} << 20};
inline constexpr FileKind kMetricsFile{"a file of metrics", int64_t{1} << 30, /*grows=*/true};

std::string read_file(const std::filesystem::path& path, const FileKind& kind = kResultFile);

// The first bytes of a file, at most `count`; fewer where it is shorter.
std::string read_start(const std::filesystem::path& path, std::size_t count);

struct FilePart {
  std::string bytes;
  int64_t begin = 0;  // the byte of the file at which they start
};

// At most `count` bytes of a file from byte `begin` on, or from its start if it is shorter.
FilePart read_part(const std::filesystem::path& path, int64_t begin, std::size_t count);

// Some editors write it at the start of a UTF-8 file.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace hydramix
