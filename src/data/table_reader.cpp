// SPDX-License-Identifier: Apache-2.0
#include "data/table_reader.h"

#include <fmt/format.h>

#include "base/fnv.h"
#include "base/read_file.h"
#include "data/hashed_stream.h"
#include "text/unicode.h"

namespace hydramix {
namespace {

constexpr int64_t kLongestLine = 16 << 20;

}  // namespace

TableReader::TableReader(const std::filesystem::path& path)
    : path_(path),
      hash_(kFnvStart),
      lines_(std::make_unique<HashedStream>(open_bytes(path), hash_), kLongestLine) {}

bool TableReader::next() {
  if (!lines_.next()) return false;
  HYDRAMIX_CHECK(!lines_.too_long(), where(), " is longer than ", kLongestLine,
                 " bytes; expected rows of a table. Check that this is the right file.");
  std::string_view text = lines_.text();
  if (line() == 1) text = without_byte_order_mark(text);
  try {
    unicode::check_utf8(text);
  } catch (const Error& error) {
    throw Error(where() + ": " + error.what());
  }
  text_ = text;
  cells_.clear();
  for (std::size_t end; (end = text.find('\t')) != text.npos; text.remove_prefix(end + 1))
    cells_.push_back(text.substr(0, end));
  cells_.push_back(text);
  return true;
}

std::string TableReader::where() const { return concat(path_.string(), ": line ", line()); }

std::string TableReader::fingerprint() const { return fmt::format("{:016x}", hash_); }

}  // namespace hydramix
