// SPDX-License-Identifier: Apache-2.0
// Reads tab-separated values row by row. Quotes are ordinary characters, as in the GLUE files. A
// byte order mark, \r\n and a missing final newline are accepted. Decompresses .gz, .zst
// and .xz.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/line_reader.h"

namespace hydramix {

class TableReader {
 public:
  explicit TableReader(const std::filesystem::path& path);
  // The stream points to the hash.
  TableReader(const TableReader&) = delete;
  TableReader& operator=(const TableReader&) = delete;

  // The next row; false after the last. Error names file and line where the text is not UTF-8.
  bool next();

  const std::vector<std::string_view>& cells() const { return cells_; }  // until the next call
  std::string_view text() const { return text_; }                        // the whole row
  int64_t line() const { return lines_.number(); }                       // counted from 1
  int64_t consumed() const { return lines_.consumed(); }                 // bytes of the file
  std::string where() const;                                             // "dev.tsv: line 3"

  // Hash of all bytes of the contents, 16 hex digits; call after the last row.
  std::string fingerprint() const;

 private:
  std::filesystem::path path_;
  uint64_t hash_;
  LineReader lines_;
  std::string_view text_;
  std::vector<std::string_view> cells_;
};

}  // namespace hydramix
