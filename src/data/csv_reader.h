// SPDX-License-Identifier: Apache-2.0
// Reads comma-separated values row by row, as RFC 4180 defines them: a cell in quotes may hold
// commas, line breaks and doubled quotes. A byte order mark, \n or \r\n and a missing final newline
// are accepted; blank lines are skipped. What the standard forbids is an Error that names the line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/byte_stream.h"

namespace hydramix {

class CsvReader {
 public:
  // "-" is stdin.
  explicit CsvReader(const std::filesystem::path& path);
  // The stream points to the hash.
  CsvReader(const CsvReader&) = delete;
  CsvReader& operator=(const CsvReader&) = delete;

  bool next();  // the next row; false after the last

  const std::vector<std::string>& cells() const { return cells_; }
  int64_t line() const { return row_line_; }  // where the row begins, counted from 1
  std::string where() const;                  // "mine.csv: line 3"
  std::string fingerprint() const;            // as TableReader's
  int64_t consumed() const { return stream_->consumed(); }

 private:
  static constexpr int kEnd = -1;
  int peek();  // the next byte, or kEnd
  int take();
  void add(int byte);
  bool at_line_end();  // at \n, \r\n or the end
  void take_line_end();
  void read_plain_cell();
  void read_quoted_cell();

  std::filesystem::path path_;
  uint64_t hash_;
  std::unique_ptr<ByteStream> stream_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // the unread part of the buffer
  bool ended_ = false;               // the stream
  int64_t line_ = 1, row_line_ = 0;
  std::size_t row_bytes_ = 0;
  std::vector<std::string> cells_;
};

}  // namespace hydramix
