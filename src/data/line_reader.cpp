// SPDX-License-Identifier: Apache-2.0
#include "data/line_reader.h"

#include <cstring>

namespace hydramix {

LineReader::LineReader(std::unique_ptr<ByteStream> stream, int64_t limit, int64_t offset,
                       int64_t line)
    : stream_(std::move(stream)),
      limit_(static_cast<std::size_t>(limit)),
      offset_(offset),
      line_(line),
      buffer_(256 << 10) {}

bool LineReader::next() {
  joined_.clear();
  text_ = {};
  too_long_ = false;
  std::size_t length = 0;  // of the line so far, kept or not
  while (true) {
    if (begin_ == end_) {
      begin_ = 0;
      end_ = stream_->read(buffer_.data(), buffer_.size());
      if (end_ == 0) {
        if (length == 0) return false;
        text_ = joined_;
        break;
      }
    }
    const char* start = buffer_.data() + begin_;
    const auto* newline = static_cast<const char*>(std::memchr(start, '\n', end_ - begin_));
    const std::size_t count =
        newline != nullptr ? static_cast<std::size_t>(newline - start) : end_ - begin_;
    begin_ += count + (newline != nullptr ? 1 : 0);
    length += count;
    too_long_ = length > limit_;
    if (newline != nullptr && length == count) {  // entirely in the buffer: no copy
      text_ = {start, count};
    } else if (!too_long_) {
      joined_.append(start, count);
      text_ = joined_;
    }
    if (newline != nullptr) {
      ++offset_;
      break;
    }
  }
  offset_ += static_cast<int64_t>(length);
  ++line_;
  if (too_long_) text_ = {};
  if (text_.ends_with('\r')) text_.remove_suffix(1);
  return true;
}

void check_line_length(const LineReader& lines, const std::string& path) {
  HYDRAMIX_CHECK(!lines.too_long(), path == "-" ? "stdin" : path, ":", lines.number(),
                 ": the line is longer than ", lines.limit(),
                 " bytes; expected one text a line. Split it.");
}

}  // namespace hydramix
