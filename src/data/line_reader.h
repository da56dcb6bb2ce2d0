// SPDX-License-Identifier: Apache-2.0
// Reads a stream line by line in bounded memory: a line above the limit is skipped up to its end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_stream.h"

namespace hydramix {

class LineReader {
 public:
  // `offset` and `line`: bytes and lines of the contents that were read before.
  LineReader(std::unique_ptr<ByteStream> stream, int64_t limit, int64_t offset = 0,
             int64_t line = 0);

  // The next line, without its end (\n or \r\n); false after the last. Throws DamagedArchive; the
  // truncated line is dropped.
  bool next();

  std::string_view text() const { return text_; }  // until the next call; empty when too long
  bool too_long() const { return too_long_; }
  int64_t limit() const { return static_cast<int64_t>(limit_); }
  int64_t number() const { return line_; }    // counted from 1
  int64_t offset() const { return offset_; }  // in the contents, after this line
  int64_t consumed() const { return stream_->consumed(); }

 private:
  std::unique_ptr<ByteStream> stream_;
  std::size_t limit_;
  int64_t offset_, line_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // the unread part of the buffer
  std::string joined_;               // a line that crosses the end of the buffer
  std::string_view text_;
  bool too_long_ = false;
};

// The longest line of text that the commands accept. A text is encoded whole, which takes
// many times its size.
inline constexpr int64_t kLongestTextLine = int64_t{16} << 20;
// Error when the reader skipped the current line for its length. `path` as in open_text().
void check_line_length(const LineReader& lines, const std::string& path);

}  // namespace hydramix
