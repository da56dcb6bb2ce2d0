// SPDX-License-Identifier: Apache-2.0
// The lines of a stream, in memory that does not grow with them: of a line above the limit only its
// end is looked for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_stream.h"

namespace hydramix {

// Some editors put it before the first line of a file of UTF-8.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

class LineReader {
 public:
  // `offset` and `line`: how much of the file's contents was read before.
  LineReader(std::unique_ptr<ByteStream> stream, int64_t limit, int64_t offset = 0,
             int64_t line = 0);

  // The next line, without its end (\n or \r\n); false after the last. Throws DamagedArchive, and
  // then drops the line that was cut short.
  bool next();

  std::string_view text() const { return text_; }  // until the next call; empty when too long
  bool too_long() const { return too_long_; }
  int64_t number() const { return line_; }    // counted from 1
  int64_t offset() const { return offset_; }  // of the contents, behind this line
  int64_t consumed() const { return stream_->consumed(); }

 private:
  std::unique_ptr<ByteStream> stream_;
  std::size_t limit_;
  int64_t offset_, line_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // what of the buffer is still to be read
  std::string joined_;               // a line that crosses the end of the buffer
  std::string_view text_;
  bool too_long_ = false;
};

}  // namespace hydramix
