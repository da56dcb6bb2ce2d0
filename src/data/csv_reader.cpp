// SPDX-License-Identifier: Apache-2.0
#include "data/csv_reader.h"

#include <fmt/format.h>

#include <cstring>

#include "base/read_file.h"
#include "data/hashed_stream.h"
#include "text/unicode.h"

namespace hydramix {
namespace {

constexpr std::size_t kLongestRow = 16 << 20;  // bytes in its cells
constexpr std::size_t kMostCells = 1 << 20;

}  // namespace

CsvReader::CsvReader(const std::filesystem::path& path)
    : path_(path),
      hash_(kFnvStart),
      stream_(std::make_unique<HashedStream>(open_text(path), hash_)),
      buffer_(256 << 10) {
  peek();
  const std::size_t mark = kByteOrderMark.size();
  if (end_ >= mark && std::memcmp(buffer_.data(), kByteOrderMark.data(), mark) == 0) begin_ = mark;
}

int CsvReader::peek() {
  if (begin_ == end_ && !ended_) {
    begin_ = 0;
    end_ = stream_->read(buffer_.data(), buffer_.size());
    ended_ = end_ == 0;  // a terminal would wait for more
  }
  if (ended_) return kEnd;
  return static_cast<unsigned char>(buffer_[begin_]);
}

int CsvReader::take() {
  const int byte = peek();
  if (byte == kEnd) return kEnd;
  ++begin_;
  if (byte == '\n') ++line_;
  return byte;
}

void CsvReader::add(int byte) {
  HYDRAMIX_CHECK(++row_bytes_ <= kLongestRow, where(), " begins a row of more than ", kLongestRow,
                 " bytes. Is a quote not closed? Check that this is the right file.");
  cells_.back() += static_cast<char>(byte);
}

// A \r before \n belongs to the end of the line; peek() sees one byte, so a lone \r is taken too.
bool CsvReader::at_line_end() {
  const int byte = peek();
  return byte == kEnd || byte == '\n' || byte == '\r';
}

void CsvReader::take_line_end() {
  if (peek() == '\r') {
    take();
    HYDRAMIX_CHECK(peek() == '\n' || peek() == kEnd, path_.string(), ": line ", line_,
                   ": has a carriage return inside a cell. Put the cell in quotes.");
  }
  take();
}

void CsvReader::read_plain_cell() {
  while (!at_line_end() && peek() != ',') {
    HYDRAMIX_CHECK(peek() != '"', path_.string(), ": line ", line_, ": cell ", cells_.size(),
                   " has a quote, but does not begin with one. Put the cell in quotes and double "
                   "the quotes in it: \"5\"\" disk\".");
    add(take());
  }
}

void CsvReader::read_quoted_cell() {
  const int64_t opened = line_;
  take();
  while (true) {
    const int byte = take();
    HYDRAMIX_CHECK(byte != kEnd, path_.string(), ": line ", opened, ": the quote of cell ",
                   cells_.size(), " is not closed before the end of the file. Close it.");
    if (byte != '"') {
      add(byte);
    } else if (peek() == '"') {
      add(take());
    } else {
      break;
    }
  }
  HYDRAMIX_CHECK(at_line_end() || peek() == ',', path_.string(), ": line ", line_,
                 ": text follows the closing quote of cell ", cells_.size(),
                 "; expected a comma or the end of the line. Double the quotes inside a cell.");
}

bool CsvReader::next() {
  while (peek() == '\n' || peek() == '\r') take_line_end();  // blank lines
  if (peek() == kEnd) return false;
  row_line_ = line_;
  row_bytes_ = 0;
  cells_.clear();
  while (true) {
    HYDRAMIX_CHECK(cells_.size() < kMostCells, where(), " begins a row of more than ", kMostCells,
                   " cells. Check that this is the right file.");
    cells_.emplace_back();
    if (peek() == '"')
      read_quoted_cell();
    else
      read_plain_cell();
    if (peek() != ',') break;
    take();
  }
  take_line_end();
  for (const auto& cell : cells_) {
    try {
      unicode::check_utf8(cell);
    } catch (const Error& error) {
      throw Error(where() + ": " + error.what());
    }
  }
  return true;
}

std::string CsvReader::where() const { return concat(path_.string(), ": line ", row_line_); }

std::string CsvReader::fingerprint() const { return fmt::format("{:016x}", hash_); }

}  // namespace hydramix
